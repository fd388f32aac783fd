// Learns at once that another process of this machine has ended or was stopped, however that came.
#ifndef MEGATWIN_EXEC_PROCESS_WATCH_H_
#define MEGATWIN_EXEC_PROCESS_WATCH_H_

#include <cstdint>
#include <string>

namespace megatwin::exec {

// How another process finds this one: its number, and the name of the machine and of the space of
// numbers that it counts in.
struct ProcessName {
  std::int32_t pid = 0;
  std::string space;
};
ProcessName own_process_name();

// Holds the process by a descriptor, so that a number used again deceives nobody.
class ProcessWatch {
 public:
  ProcessWatch() = default;
  // Watches nothing when the process is on another machine or the system cannot do it.
  explicit ProcessWatch(const ProcessName& name);
  ~ProcessWatch();
  ProcessWatch(ProcessWatch&& other) noexcept;
  ProcessWatch& operator=(ProcessWatch&& other) noexcept;

  bool has_ended() const;
  // By a signal or a debugger; false where nothing is watched.
  bool is_stopped() const;

 private:
  int descriptor_ = -1;
  std::int32_t pid_ = 0;
};

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_PROCESS_WATCH_H_

#include "cli/policy_guard.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>

#include "cli/console.h"

namespace megatwin::cli {
namespace {

constexpr std::chrono::seconds kLook{1};
constexpr int kLooksUntilTold = 10;

constexpr std::array kSignals = {std::pair{SIGSEGV, "SIGSEGV"}, std::pair{SIGBUS, "SIGBUS"},
                                 std::pair{SIGFPE, "SIGFPE"}, std::pair{SIGILL, "SIGILL"},
                                 std::pair{SIGABRT, "SIGABRT"}};

// What a thread is at. Odd numbers are calls, even ones the time between them.
struct Mark {
  std::atomic<std::uint64_t> number{0};
  std::atomic<const char*> library{nullptr};
  std::atomic<int> stage{0}, tasks{0};
};

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): a signal finds nothing else.
// Plain, so that it is still there when the thread's own objects are gone and exit() runs on.
thread_local Mark* this_thread = nullptr;
alignas(16) thread_local std::array<char, 16384> signal_stack;

// The library called last by any thread: what crashes later may be its doing too.
std::atomic<const char*> last_library{nullptr};
std::array<struct sigaction, kSignals.size()> before;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

// Text put together without memory of the heap: a signal may come while that is torn.
class Line {
 public:
  Line& operator<<(std::string_view text) {
    for (const char letter : text) {
      if (used_ < buffer_.size()) buffer_[used_++] = letter;
    }
    return *this;
  }
  Line& operator<<(int number) {
    std::array<char, 12> digits{};
    std::size_t first = digits.size();
    unsigned rest = number < 0 ? 0U : static_cast<unsigned>(number);
    do {
      digits[--first] = static_cast<char>('0' + rest % 10);
      rest /= 10;
    } while (rest != 0);
    return *this << std::string_view(&digits[first], digits.size() - first);
  }
  void tell() {
    *this << "\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, buffer_.data(), used_);
  }

 private:
  std::array<char, 1024> buffer_{};
  std::size_t used_ = 0;
};

bool is_inside(const Mark* mark) { return mark != nullptr && mark->number % 2 == 1; }

void place_of(const Mark& mark, Line& line) {
  if (mark.stage == PolicyCall::kLoading) {
    line << " while it was loaded";
  } else {
    line << " in megatwin_policy_v1, asked on stage " << mark.stage << " after " << mark.tasks
         << " of its answers";
  }
}

void on_signal(int signal) {
  Line line;
  const char* name = "a signal";
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (kSignals[i].first != signal) continue;
    name = kSignals[i].second;
    sigaction(signal, &before[i], nullptr);
  }
  if (is_inside(this_thread)) {
    line << "megatwin: error: the policy " << this_thread->library.load() << " crashed (" << name
         << ")";
    place_of(*this_thread, line);
    line.tell();
  } else if (const char* library = last_library; library != nullptr && signal != SIGABRT) {
    line << "megatwin: error: crashed (" << name << ") after calls of the policy " << library
         << ", which may have written where it must not: state has 64 numbers";
    line.tell();
  }
  raise(signal);  // Held back until this returns, and then as it was before.
}

void when_program_ends() {
  if (!is_inside(this_thread)) return;
  Line line;
  line << "megatwin: error: the policy " << this_thread->library.load() << " called exit()";
  place_of(*this_thread, line);
  line << "; a policy must return";
  line.tell();
  std::_Exit(kExitMachine);
}

// Looks once a second at who is still in the same call.
class Watch {
 public:
  Watch() : thread_([this] { run(); }) {}
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    wakes_.notify_all();
    thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  Mark* add() {
    const std::lock_guard lock(mutex_);
    return &watched_.emplace_back().mark;
  }

 private:
  struct Watched {
    Mark mark;
    std::uint64_t seen = 0;
    int looks = 0;
  };

  void run() {
    std::unique_lock lock(mutex_);
    while (!wakes_.wait_for(lock, kLook, [&] { return stops_; })) {
      for (Watched& watched : watched_) look(watched);
    }
  }

  static void look(Watched& watched) {
    const std::uint64_t number = watched.mark.number;
    watched.looks = number % 2 == 1 && number == watched.seen ? watched.looks + 1 : 0;
    watched.seen = number;
    if (watched.looks != kLooksUntilTold) return;
    Line line;
    line << "megatwin: the policy " << watched.mark.library.load() << " has not answered for "
         << kLooksUntilTold << " s";
    place_of(watched.mark, line);
    line << "; it may never";
    line.tell();
  }

  std::mutex mutex_;
  std::condition_variable wakes_;
  bool stops_ = false;
  std::deque<Watched> watched_;  // One a thread that ever called, until the program ends.
  std::thread thread_;           // The last, for it uses the others.
};

// Set up once: what is registered last runs first when the program ends, so when_program_ends()
// before the watch is taken down.
Watch& watch() {
  // Never taken down: a thread that hangs in a policy may come back while the program ends.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
  static Watch& the_watch = *new Watch;
  static const bool ready = [] {
    std::atexit(when_program_ends);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction action {};
      action.sa_handler = on_signal;
      action.sa_flags = SA_ONSTACK;
      sigaction(kSignals[i].first, &action, &before[i]);
    }
    return true;
  }();
  static_cast<void>(ready);
  return the_watch;
}

// A stack that overflowed is none to tell it from.
void give_signal_stack() {
  stack_t stack{};
  if (sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0) return;
  stack = {};
  stack.ss_sp = signal_stack.data();
  stack.ss_size = signal_stack.size();
  sigaltstack(&stack, nullptr);
}

class GuardedPolicy : public policies::Policy {
 public:
  GuardedPolicy(std::unique_ptr<policies::Policy> policy, const std::string& library, int stage)
      : policy_(std::move(policy)), library_(library), stage_(stage) {}

  std::optional<model::TaskId> pick(const policies::Observation& observation) override {
    const PolicyCall call(library_, stage_, answers_);
    ++answers_;
    return policy_->pick(observation);
  }
  std::string state_line() const override { return policy_->state_line(); }

 private:
  std::unique_ptr<policies::Policy> policy_;
  const std::string& library_;
  int stage_;
  int answers_ = 0;
};

}  // namespace

const std::string& kept_name(const std::string& library) {
  static std::mutex mutex;
  // Named to the very end of the program.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
  static auto& names = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return *names.insert(library).first;
}

PolicyCall::PolicyCall(const std::string& library, int stage, int tasks) {
  if (this_thread == nullptr) {
    this_thread = watch().add();
    give_signal_stack();
  }
  this_thread->library = library.c_str();
  this_thread->stage = stage;
  this_thread->tasks = tasks;
  last_library = library.c_str();
  ++this_thread->number;
}

PolicyCall::~PolicyCall() { ++this_thread->number; }

policies::PolicyFactory guarded(policies::PolicyFactory factory, const std::string& library) {
  const std::string& name = kept_name(library);
  return [factory = std::move(factory), &name](const model::Program& program, model::RankId rank) {
    return std::make_unique<GuardedPolicy>(factory(program, rank), name, program.stage.value);
  };
}

}  // namespace megatwin::cli

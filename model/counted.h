// "1 GPU", "8 GPUs": a number and its noun, for messages.
#ifndef MEGATWIN_MODEL_COUNTED_H_
#define MEGATWIN_MODEL_COUNTED_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace megatwin::model {

// The plural takes an s.
inline std::string counted(std::int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_COUNTED_H_

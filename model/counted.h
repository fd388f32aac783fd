// "1 GPU", "8 GPUs": a number and its noun, for messages.
#ifndef MEGATWIN_MODEL_COUNTED_H_
#define MEGATWIN_MODEL_COUNTED_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace megatwin::model {

// The plural takes an s, after ch an es.
inline std::string counted(std::int64_t count, std::string_view noun) {
  const char* plural = noun.ends_with("ch") ? "es" : "s";
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : plural);
}

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_COUNTED_H_

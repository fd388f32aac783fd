// The safetensors file format: 8 bytes with the length of a header, little endian; the header in
// JSON, which says for each tensor its type, shape and place; then the numbers. Written in fp32;
// fp32, bf16 and fp16 are read.
// Source: https://github.com/huggingface/safetensors, section "Format".
#ifndef MEGATWIN_EXEC_SAFETENSORS_H_
#define MEGATWIN_EXEC_SAFETENSORS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/result.h"

namespace megatwin::exec {

struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;  // Row-major.
};

// The whole file. Equal tensors in equal order give equal bytes.
std::string safetensors_bytes(std::span<const Tensor> tensors);

// Errors: no safetensors file, a type that is not read, places outside of the file. `file` is for
// messages.
model::Result<std::vector<Tensor>> parse_safetensors(const std::string& file,
                                                     std::string_view bytes);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_SAFETENSORS_H_

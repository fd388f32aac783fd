#include "exec/safetensors.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <optional>

#include "model/assert.h"
#include "scenarios/json_reader.h"

namespace megatwin::exec {
namespace {

using scenarios::TreeKind;
using scenarios::TreeNode;

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie");

std::int64_t count_of(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::string header_text(std::span<const Tensor> tensors) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  std::size_t at = 0;
  for (const Tensor& tensor : tensors) {
    const std::size_t end = at + tensor.values.size() * sizeof(float);
    std::string shape;
    for (const std::int64_t size : tensor.shape) {
      shape += (shape.empty() ? "" : ",") + std::to_string(size);
    }
    text += ",\"" + tensor.name + R"(":{"dtype":"F32","shape":[)" + shape +
            R"(],"data_offsets":[)" + std::to_string(at) + "," + std::to_string(end) + "]}";
    at = end;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');  // The numbers start on eight bytes.
  return text;
}

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// IEEE 754 binary16.
float from_fp16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) / 16777216.0F;  // 2⁻²⁴ each.
    return sign != 0 ? -value : value;
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

std::optional<std::int64_t> number_of(const TreeNode& node) {
  std::int64_t value = 0;
  const char* end = node.text.data() + node.text.size();
  const auto [rest, error] = std::from_chars(node.text.data(), end, value);
  if (node.kind != TreeKind::Scalar || error != std::errc() || rest != end || value < 0) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::vector<std::int64_t>> numbers_of(const TreeNode* node) {
  if (node == nullptr || node->kind != TreeKind::Sequence) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const TreeNode& item : node->items) {
    const auto number = number_of(item);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<int> width_of(const TreeNode* type) {
  if (type == nullptr) return std::nullopt;
  if (type->text == "F32") return 4;
  if (type->text == "BF16" || type->text == "F16") return 2;
  return std::nullopt;
}

// Why the entry of a tensor cannot be used; empty when `tensor` is filled.
std::string read_entry(const TreeNode& entry, std::string_view numbers, Tensor& tensor) {
  const TreeNode* type = entry.find("dtype");
  const auto width = width_of(type);
  if (!width) {
    return "has the type " + (type == nullptr ? std::string("none") : type->text) +
           "; F32, BF16 and F16 are read";
  }
  const auto shape = numbers_of(entry.find("shape"));
  const auto offsets = numbers_of(entry.find("data_offsets"));
  if (!shape || !offsets || offsets->size() != 2) return "has no shape or no data_offsets";
  const std::int64_t begin = (*offsets)[0];
  const std::int64_t end = (*offsets)[1];
  std::int64_t room = std::ssize(numbers) / *width;
  for (const std::int64_t size : *shape) room = size == 0 ? room : room / size;
  if (room == 0 || begin > end || end > std::ssize(numbers) ||
      end - begin != count_of(*shape) * *width) {
    return "does not lie inside of the file";
  }
  tensor.shape = *shape;
  tensor.values.resize(static_cast<std::size_t>(count_of(*shape)));
  const char* from = numbers.data() + begin;
  if (*width == 4) {
    if (!tensor.values.empty()) std::memcpy(tensor.values.data(), from, end - begin);
    return "";
  }
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + 2 * i, 2);
    tensor.values[i] = type->text == "BF16" ? from_bf16(bits) : from_fp16(bits);
  }
  return "";
}

}  // namespace

std::string safetensors_bytes(std::span<const Tensor> tensors) {
  const std::string header = header_text(tensors);
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) {
    bytes.push_back(static_cast<char>(static_cast<std::uint64_t>(header.size()) >> shift));
  }
  bytes += header;
  for (const Tensor& tensor : tensors) {
    MEGATWIN_ASSERT(count_of(tensor.shape) == std::ssize(tensor.values), tensor.name);
    bytes.append(reinterpret_cast<const char*>(tensor.values.data()),
                 tensor.values.size() * sizeof(float));
  }
  return bytes;
}

model::Result<std::vector<Tensor>> parse_safetensors(const std::string& file,
                                                     std::string_view bytes) {
  const auto fail = [&](const std::string& message) {
    return model::fail(model::Diagnostic{
        .file = file,
        .message = message,
        .allowed = "a safetensors file: 8 bytes of length, a header in JSON, numbers"});
  };
  std::uint64_t length = 0;
  if (bytes.size() >= 8) std::memcpy(&length, bytes.data(), 8);
  if (bytes.size() < 8 || length > bytes.size() - 8) {
    return fail("is no safetensors file, or was cut off");
  }
  const auto header =
      scenarios::parse_json(file, bytes.substr(8, static_cast<std::size_t>(length)));
  if (!header || header->root.kind != TreeKind::Map) {
    return fail("is no safetensors file: its header is no JSON object");
  }
  const std::string_view numbers = bytes.substr(8 + static_cast<std::size_t>(length));
  std::vector<Tensor> tensors;
  for (const auto& entry : header->root.entries) {
    if (entry.key == "__metadata__") continue;
    Tensor tensor{.name = entry.key};
    const std::string problem = read_entry(entry.value, numbers, tensor);
    if (!problem.empty()) return fail("tensor " + entry.key + " " + problem);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace megatwin::exec

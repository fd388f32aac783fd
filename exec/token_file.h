// Training data as tokens: a UTF-8 text of which every byte is a token, or a .bin file of tokens.
// A .bin file starts with 256 integers of 4 bytes, little endian: 20240520, the version, the number
// of tokens, zeros; then the tokens, of 2 bytes in version 1 and of 4 in version 2 (the layout of
// llm.c, and its extension to vocabularies above 65,536).
#ifndef MEGATWIN_EXEC_TOKEN_FILE_H_
#define MEGATWIN_EXEC_TOKEN_FILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/result.h"
#include "model/training.h"

namespace megatwin::exec {

// Tokens in memory, as wide as the file has them. Immutable once made.
class Tokens {
 public:
  Tokens() = default;
  // `bytes` holds numbers of `width` bytes, little endian. Requires: width is 1, 2 or 4.
  Tokens(std::string bytes, int width);

  std::int64_t size() const { return size_; }
  std::int32_t operator[](std::int64_t index) const {
    const auto* at = reinterpret_cast<const unsigned char*>(bytes_.data()) + index * width_;
    std::uint32_t token = at[0];
    for (int byte = 1; byte < width_; ++byte) {
      token |= static_cast<std::uint32_t>(at[byte]) << (8 * byte);
    }
    return static_cast<std::int32_t>(token);
  }

 private:
  std::string bytes_;
  int width_ = 1;
  std::int64_t size_ = 0;
};

// Errors: the file cannot be read, is no text or no token file, or holds a token that is not below
// `vocabulary`.
model::Result<Tokens> read_tokens(const model::TrainingData& data, std::int64_t vocabulary);

// The same from bytes. `file` is for messages.
model::Result<Tokens> parse_text(const std::string& file, std::string bytes,
                                 std::int64_t vocabulary);
model::Result<Tokens> parse_token_file(const std::string& file, const std::string& bytes,
                                       std::int64_t vocabulary);

// What parse_token_file() reads: version 1 unless a token needs more.
std::string token_file_bytes(std::span<const std::int32_t> tokens);

}  // namespace megatwin::exec

#endif  // MEGATWIN_EXEC_TOKEN_FILE_H_

#include "exec/token_file.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "exec/file_problem.h"
#include "model/assert.h"
#include "scenarios/document.h"

namespace megatwin::exec {
namespace {

constexpr std::size_t kHeaderBytes = 256 * sizeof(std::int32_t);
constexpr std::int32_t kMagic = 20240520;

constexpr const char* kAllowed = "a UTF-8 text (data.text) or a token file (data.tokens)";

// What comes through a pipe may have no end, and is held in memory as a whole.
constexpr std::size_t kPipeMax = 256U << 20U;

// Larger than what a scenario may be, so not by scenarios/document.h.
model::Result<std::string> read_bytes(const std::string& path) {
  if (const auto reason = scenarios::why_no_file(path)) {
    return model::fail(file_problem(path, *reason, kAllowed));
  }
  errno = 0;
  std::error_code ignored;
  const bool has_end = std::filesystem::is_regular_file(path, ignored);
  std::ifstream file(path, std::ios::binary);
  std::string bytes;
  std::vector<char> part(1U << 20U);
  while (file) {
    file.read(part.data(), std::ssize(part));
    bytes.append(part.data(), static_cast<std::size_t>(file.gcount()));
    if (has_end || bytes.size() <= kPipeMax) continue;
    return model::fail(
        file_problem(path, "gives more than 256 MiB, and a pipe need not end", "a file"));
  }
  if (file.bad() || bytes.empty()) {
    const std::string reason =
        errno != 0 ? std::generic_category().message(errno) : std::string("it is empty");
    return model::fail(file_problem(path, "cannot be read as training data: " + reason, kAllowed));
  }
  return bytes;
}

void append_number(std::string& bytes, std::uint32_t number, int width) {
  for (int byte = 0; byte < width; ++byte) {
    bytes.push_back(static_cast<char>(number >> (8 * byte) & 0xffu));
  }
}

// How many bytes the character at `index` takes, 0 when it is no UTF-8 (RFC 3629, section 4).
std::size_t character_length(const std::string& text, std::size_t index) {
  const auto byte = [&](std::size_t i) {
    return index + i < text.size() ? static_cast<unsigned char>(text[index + i]) : 0u;
  };
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool second = follows(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf);
    return second && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool second = follows(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf);
    return second && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

Tokens::Tokens(std::string bytes, int width)
    : bytes_(std::move(bytes)), width_(width), size_(std::ssize(bytes_) / width) {
  MEGATWIN_ASSERT(width == 1 || width == 2 || width == 4, width);
}

model::Result<Tokens> parse_text(const std::string& file, std::string bytes,
                                 std::int64_t vocabulary) {
  if (vocabulary < 256) {
    return model::fail(
        file_problem(file,
                     "a text has 256 kinds of bytes, and the model's vocabulary is " +
                         std::to_string(vocabulary),
                     "model.vocab_size of 256 or more"));
  }
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = character_length(bytes, at);
    if (length == 0) {
      return model::fail(file_problem(file, "is not UTF-8 at byte " + std::to_string(at),
                                      "a UTF-8 text; tokens go to data.tokens"));
    }
    at += length;
  }
  return Tokens(std::move(bytes), 1);
}

model::Result<Tokens> parse_token_file(const std::string& file, const std::string& bytes,
                                       std::int64_t vocabulary) {
  const std::string allowed =
      "256 integers of 4 bytes (20240520, version 1 or 2, number of tokens, zeros), then the "
      "tokens";
  if (bytes.size() < kHeaderBytes) {
    return model::fail(file_problem(
        file, "is no token file: it has " + std::to_string(bytes.size()) + " bytes", allowed));
  }
  const Tokens header(bytes.substr(0, kHeaderBytes), 4);
  const std::int32_t version = header[1];
  if (header[0] != kMagic || (version != 1 && version != 2)) {
    return model::fail(file_problem(file,
                                    "is no token file: it starts with " +
                                        std::to_string(header[0]) + ", version " +
                                        std::to_string(version),
                                    allowed));
  }
  const int width = version == 1 ? 2 : 4;
  Tokens tokens(bytes.substr(kHeaderBytes), width);
  const std::int64_t said =
      static_cast<std::int64_t>(kHeaderBytes) + std::int64_t{width} * header[2];
  if (header[2] < 0 || std::ssize(bytes) != said) {
    return model::fail(file_problem(
        file,
        "says that it has " + std::to_string(header[2]) + " tokens, with the header " +
            std::to_string(said) + " bytes, and has " + std::to_string(bytes.size()) + " bytes",
        allowed));
  }
  for (std::int64_t index = 0; index < tokens.size(); ++index) {
    if (tokens[index] < 0 || tokens[index] >= vocabulary) {
      return model::fail(file_problem(file,
                                      "token " + std::to_string(index) + " is " +
                                          std::to_string(static_cast<std::uint32_t>(tokens[index])),
                                      "below model.vocab_size " + std::to_string(vocabulary)));
    }
  }
  return tokens;
}

model::Result<Tokens> read_tokens(const model::TrainingData& data, std::int64_t vocabulary) {
  MEGATWIN_ASSERT(data.kind != model::TrainingDataKind::None, "no data");
  MEGATWIN_TRY(std::string bytes, read_bytes(data.path));
  return data.kind == model::TrainingDataKind::Text
             ? parse_text(data.path, std::move(bytes), vocabulary)
             : parse_token_file(data.path, bytes, vocabulary);
}

std::string token_file_bytes(std::span<const std::int32_t> tokens) {
  const bool wide =
      std::any_of(tokens.begin(), tokens.end(), [](std::int32_t token) { return token > 0xffff; });
  std::string bytes;
  append_number(bytes, kMagic, 4);
  append_number(bytes, wide ? 2 : 1, 4);
  append_number(bytes, static_cast<std::uint32_t>(tokens.size()), 4);
  bytes.resize(kHeaderBytes, '\0');
  for (const std::int32_t token : tokens) {
    append_number(bytes, static_cast<std::uint32_t>(token), wide ? 4 : 2);
  }
  return bytes;
}

}  // namespace megatwin::exec

#include "cli/report/utf8.h"

#include <cstdint>

namespace megatwin::cli {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// Length of the well-formed sequence at the start of `text`, or 0: RFC 3629, section 4.
std::size_t sequence_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  std::uint32_t point = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
    point = first & 0x1FU;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    point = first & 0x0FU;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    point = first & 0x07U;
  } else {
    return 0;
  }
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) return 0;
    point = point << 6U | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
  const bool overlong = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
  return surrogate || overlong || point > 0x10FFFF ? 0 : length;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) {
      clean += "\xEF\xBF\xBD";
      text.remove_prefix(1);
      continue;
    }
    clean.append(text.substr(0, length));
    text.remove_prefix(length);
  }
  return clean;
}

std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char c : valid_utf8(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '"') {
      escaped += "&quot;";
    } else if (c == '\'') {
      escaped += "&#39;";
    } else if (byte >= 0x20 || c == '\n' || c == '\t') {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace megatwin::cli

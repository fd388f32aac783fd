#include "scenarios/hostlist.h"

#include <algorithm>
#include <optional>

#include "scenarios/document.h"

namespace megatwin::scenarios {
namespace {

model::Diagnostic fault(std::string_view text, const char* what) {
  return {.message = quoted(text) + " " + what, .allowed = "names such as node[01-16,20],spare1"};
}

std::optional<long> number(std::string_view text) {
  if (text.empty() || text.size() > 9) return std::nullopt;
  long value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = 10 * value + (c - '0');
  }
  return value;
}

// "1-3,7" to 1, 2, 3, 7 as text.
std::optional<std::vector<std::string>> expand_ranges(std::string_view text) {
  std::vector<std::string> all;
  while (true) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    const std::size_t dash = part.find('-');
    const std::string_view low = part.substr(0, dash);
    const auto first = number(low);
    const auto last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    if (static_cast<std::size_t>(*last - *first) > kHostsMax) return std::nullopt;
    for (long i = *first; i <= *last; ++i) {
      std::string digits = std::to_string(i);
      if (digits.size() < low.size()) digits.insert(0, low.size() - digits.size(), '0');
      all.push_back(std::move(digits));
    }
    if (all.size() > kHostsMax) return std::nullopt;
    if (comma == text.size()) return all;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

model::Result<std::vector<std::string>> expand_hostlist(std::string_view text) {
  std::vector<std::string> hosts;
  std::vector<std::string> word = {""};  // Every form of the word that is being read.
  const auto flush = [&] {
    if (word.size() > 1 || !word.front().empty())
      hosts.insert(hosts.end(), word.begin(), word.end());
    word = {""};
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ',') {
      flush();
    } else if (text[i] == '[') {
      const std::size_t close = text.find(']', i);
      if (close == std::string_view::npos) return model::fail(fault(text, "opens '[' only"));
      const auto parts = expand_ranges(text.substr(i + 1, close - i - 1));
      if (!parts) return model::fail(fault(text, "holds no range of numbers in its brackets"));
      if (word.size() * parts->size() + hosts.size() > kHostsMax) {
        return model::fail(fault(text, "stands for more than a million names"));
      }
      std::vector<std::string> longer;
      for (const std::string& head : word) {
        for (const std::string& part : *parts) longer.push_back(head + part);
      }
      word = std::move(longer);
      i = close;
    } else {
      for (std::string& form : word) form += text[i];
    }
  }
  flush();
  return hosts;
}

}  // namespace megatwin::scenarios

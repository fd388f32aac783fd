#include "model/diagnostic.h"

#include <algorithm>
#include <cstddef>

namespace megatwin::model {
namespace {

const char* name_of(Diagnostic::Severity severity) {
  switch (severity) {
    case Diagnostic::Severity::Error:
      return "error";
    case Diagnostic::Severity::Warning:
      return "warning";
    case Diagnostic::Severity::Note:
      return "note";
  }
  return "error";
}

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      const std::size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above + 1, row[j - 1] + 1, substitution});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string to_text(const Diagnostic& diagnostic) {
  std::string text;
  if (!diagnostic.file.empty()) {
    text += diagnostic.file + ":";
    if (diagnostic.line > 0) {
      text += std::to_string(diagnostic.line) + ":";
      if (diagnostic.column > 0) text += std::to_string(diagnostic.column) + ":";
    }
    text += " ";
  }
  text += name_of(diagnostic.severity);
  text += ": ";
  if (!diagnostic.key.empty()) text += diagnostic.key + ": ";
  text += diagnostic.message + "\n";
  if (!diagnostic.source_line.empty() && diagnostic.line > 0) {
    std::string number = std::to_string(diagnostic.line);
    number.insert(0, number.size() < 5 ? 5 - number.size() : 0, ' ');
    text += number + " | " + diagnostic.source_line + "\n";
    if (diagnostic.column > 0) {
      text += "      | " + std::string(static_cast<std::size_t>(diagnostic.column) - 1, ' ') + "^";
      if (diagnostic.length > 1)
        text += std::string(static_cast<std::size_t>(diagnostic.length) - 1, '~');
      text += "\n";
    }
  }
  if (!diagnostic.allowed.empty()) text += "  allowed: " + diagnostic.allowed + "\n";
  return text;
}

std::string to_text(const Diagnostics& diagnostics) {
  std::string text;
  std::size_t num_errors = 0;
  for (const Diagnostic& diagnostic : diagnostics) {
    text += to_text(diagnostic);
    if (diagnostic.severity == Diagnostic::Severity::Error) ++num_errors;
  }
  if (num_errors > 0) {
    text += std::to_string(num_errors) + (num_errors == 1 ? " error" : " errors") +
            "; nothing was run\n";
  }
  return text;
}

bool has_error(const Diagnostics& diagnostics) {
  return std::any_of(diagnostics.begin(), diagnostics.end(), [](const Diagnostic& diagnostic) {
    return diagnostic.severity == Diagnostic::Severity::Error;
  });
}

std::string nearest_word(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(word.size() / 3, 2) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace megatwin::model

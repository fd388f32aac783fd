// What is wrong with an input, said so that its author can mend it: the place, the key, what was
// found and what is allowed. Loaders collect all of them before they give up.
#ifndef MEGATWIN_MODEL_DIAGNOSTIC_H_
#define MEGATWIN_MODEL_DIAGNOSTIC_H_

#include <string>
#include <vector>

namespace megatwin::model {

struct Diagnostic {
  enum class Severity { Error, Warning, Note };

  Severity severity = Severity::Error;
  std::string file;         // As the user wrote it; "--set" for the command line. May be empty.
  int line = 0;             // From 1; 0 when the place is not a line.
  int column = 0;           // From 1; 0 when unknown.
  int length = 0;           // Characters to underline, 0 for one.
  std::string key;          // Dotted path, such as cluster.nodes[1].gpu.
  std::string message;      // What was found and why it is refused; no trailing full stop.
  std::string allowed;      // What would be accepted, without the word "allowed". May be empty.
  std::string source_line;  // The text of the line, for the caret. May be empty.
};

using Diagnostics = std::vector<Diagnostic>;

// "file:line:column: error: key: message", then the source line with a caret and the allowed
// values.
std::string to_text(const Diagnostic& diagnostic);

// All of them, then "N errors; nothing was run" when any is an error.
std::string to_text(const Diagnostics& diagnostics);

bool has_error(const Diagnostics& diagnostics);

// The candidate nearest to `word` by edit distance (at most a third of its length away), or empty.
std::string nearest_word(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace megatwin::model

#endif  // MEGATWIN_MODEL_DIAGNOSTIC_H_

// A bash script cut into commands of words, with quotes and brackets kept and nothing expanded.
// Private to shell_script.
#ifndef MEGATWIN_SCENARIOS_SHELL_LEXER_H_
#define MEGATWIN_SCENARIOS_SHELL_LEXER_H_

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace megatwin::scenarios {

inline bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
inline bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// A word as written, in pieces of one kind of quoting.
struct Piece {
  enum class Quote { None, Single, Double };
  Quote quote = Quote::None;
  std::string text;
};
struct RawWord {
  int line = 0;
  std::vector<Piece> pieces;
  // NAME=( … ) or NAME+=( … ): the words between the brackets.
  bool is_array = false;
  std::vector<RawWord> items;

  std::string plain() const {
    std::string text;
    for (const Piece& piece : pieces) text += piece.text;
    return text;
  }
  bool is_quoted() const {
    return std::any_of(pieces.begin(), pieces.end(),
                       [](const Piece& piece) { return piece.quote != Piece::Quote::None; });
  }
};
using RawCommand = std::vector<RawWord>;

struct CutScript {
  std::vector<RawCommand> commands;
  std::vector<std::string> sbatch;  // What follows #SBATCH, one a line.
  std::optional<int> open_line;     // Where a quote or bracket opens that is never closed.
};
CutScript cut_shell_script(std::string_view text);

}  // namespace megatwin::scenarios

#endif  // MEGATWIN_SCENARIOS_SHELL_LEXER_H_

#include "scenarios/shell_lexer.h"

#include <utility>

namespace megatwin::scenarios {
namespace {

// Cuts a script into commands of words. Quotes and brackets are kept together, nothing is expanded.
class Lexer {
 public:
  Lexer(std::string_view text, std::vector<std::string>& sbatch) : text_(text), sbatch_(sbatch) {}

  std::vector<RawCommand> run() {
    RawCommand command;
    while (!failed_) {
      skip_blanks_and_comments();
      if (at_end()) break;
      const char c = text_[at_];
      if (c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' || c == ')') {
        advance();
        finish(command);
        if (c == '\n') skip_here_documents();
        continue;
      }
      if (c == '<' || c == '>') {
        read_redirection();
        continue;
      }
      command.push_back(read_word());
    }
    finish(command);
    return std::move(commands_);
  }

  std::optional<int> failed_line() const {
    return failed_ ? std::optional<int>(failed_line_) : std::nullopt;
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  void advance() {
    if (text_[at_] == '\n') ++line_;
    ++at_;
  }
  void fail(int line) {
    failed_ = true;
    failed_line_ = line;
    at_ = text_.size();
  }

  bool at_continuation() const {
    if (text_[at_] != '\\') return false;
    if (text_.substr(at_ + 1, 1) == "\n") return true;
    return text_.substr(at_ + 1, 2) == "\r\n";
  }
  void skip_continuation() {
    while (text_[at_] != '\n') advance();
    advance();
  }

  void skip_blanks_and_comments() {
    while (!at_end()) {
      if (is_blank(text_[at_])) {
        advance();
      } else if (at_continuation()) {
        skip_continuation();
      } else if (text_[at_] == '#') {
        skip_comment();
      } else {
        return;
      }
    }
  }

  void skip_comment() {
    const std::size_t begin = at_;
    while (!at_end() && text_[at_] != '\n') advance();
    const std::string_view comment = text_.substr(begin, at_ - begin);
    constexpr std::string_view kSlurm = "#SBATCH";
    if (comment.starts_with(kSlurm)) sbatch_.emplace_back(comment.substr(kSlurm.size()));
  }

  void finish(RawCommand& command) {
    if (!command.empty()) commands_.push_back(std::move(command));
    command.clear();
  }

  // `> file`, `2>&1`, and the start of a here-document, whose lines are skipped at the line's end.
  void read_redirection() {
    const bool here = text_.substr(at_, 2) == "<<" && text_.substr(at_, 3) != "<<<";
    while (!at_end() &&
           (text_[at_] == '<' || text_[at_] == '>' || text_[at_] == '&' || text_[at_] == '-')) {
      advance();
    }
    while (!at_end() && is_blank(text_[at_])) advance();
    if (at_end() || text_[at_] == '\n') return;
    const RawWord target = read_word();
    if (here) here_ends_.push_back(target.plain());
  }

  void skip_here_documents() {
    for (const std::string& end : here_ends_) {
      bool found = false;
      while (!at_end() && !found) {
        const std::size_t begin = at_;
        while (!at_end() && text_[at_] != '\n') advance();
        std::string_view line = text_.substr(begin, at_ - begin);
        while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
        while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
        found = line == end;
        if (!at_end()) advance();
      }
    }
    here_ends_.clear();
  }

  void add(RawWord& word, Piece::Quote quote, std::string_view text) {
    if (word.pieces.empty() || word.pieces.back().quote != quote)
      word.pieces.push_back({quote, ""});
    word.pieces.back().text += text;
  }

  RawWord read_word() {
    RawWord word{.line = line_};
    while (!at_end() && !failed_) {
      const char c = text_[at_];
      if (is_blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' || c == '<' || c == '>' ||
          c == ')') {
        break;
      }
      if (at_continuation()) {
        skip_continuation();
        continue;
      }
      if (c == '(') {
        if (word.is_quoted() || word.plain().empty() || word.plain().back() != '=') break;
        read_array(word);
        break;
      }
      if (c == '\'') {
        read_single(word);
      } else if (c == '"') {
        read_double(word);
      } else if (c == '`') {
        read_backticks(word);
      } else if (c == '\\') {
        advance();
        if (!at_end()) add(word, Piece::Quote::Single, text_.substr(at_, 1));
        if (!at_end()) advance();
      } else if (c == '$') {
        add(word, Piece::Quote::None, read_dollar());
      } else {
        add(word, Piece::Quote::None, text_.substr(at_, 1));
        advance();
      }
    }
    return word;
  }

  void read_single(RawWord& word) {
    const int line = line_;
    advance();
    const std::size_t begin = at_;
    while (!at_end() && text_[at_] != '\'') advance();
    if (at_end()) return fail(line);
    add(word, Piece::Quote::Single, text_.substr(begin, at_ - begin));
    advance();
  }

  void read_double(RawWord& word) {
    const int line = line_;
    advance();
    add(word, Piece::Quote::Double, "");
    while (!at_end() && text_[at_] != '"') {
      if (at_continuation()) {
        skip_continuation();
      } else if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        advance();
        add(word, Piece::Quote::Double, text_.substr(at_, 1));
        advance();
      } else if (text_[at_] == '$') {
        add(word, Piece::Quote::Double, read_dollar());
      } else {
        add(word, Piece::Quote::Double, text_.substr(at_, 1));
        advance();
      }
    }
    if (at_end()) return fail(line);
    advance();
  }

  void read_backticks(RawWord& word) {
    const int line = line_;
    const std::size_t begin = at_;
    advance();
    while (!at_end() && text_[at_] != '`') advance();
    if (at_end()) return fail(line);
    advance();
    add(word, Piece::Quote::None, text_.substr(begin, at_ - begin));
  }

  // From the dollar to the end of its name or brackets.
  std::string_view read_dollar() {
    const int line = line_;
    const std::size_t begin = at_;
    advance();
    if (at_end()) return text_.substr(begin);
    const char open = text_[at_];
    if (open == '{' || open == '(') {
      const char close = open == '{' ? '}' : ')';
      int depth = 0;
      while (!at_end()) {
        if (text_[at_] == open) ++depth;
        if (text_[at_] == close && --depth == 0) break;
        advance();
      }
      if (at_end()) {
        fail(line);
        return {};
      }
      advance();
      return text_.substr(begin, at_ - begin);
    }
    if (is_name_start(open)) {
      while (!at_end() && is_name(text_[at_])) advance();
    } else if (std::isalnum(static_cast<unsigned char>(open)) != 0 || open == '@' || open == '*' ||
               open == '#' || open == '?' || open == '!') {
      advance();
    }
    return text_.substr(begin, at_ - begin);
  }

  void read_array(RawWord& word) {
    const int line = line_;
    word.is_array = true;
    advance();
    for (;;) {
      skip_blanks_and_comments();
      if (at_end()) return fail(line);
      if (text_[at_] == ')') {
        advance();
        return;
      }
      const std::size_t before = at_;
      if (text_[at_] == '\n') {
        advance();
      } else {
        word.items.push_back(read_word());
        if (at_ == before) advance();  // A stray operator.
      }
    }
  }

  std::string_view text_;
  std::vector<std::string>& sbatch_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool failed_ = false;
  int failed_line_ = 0;
  std::vector<std::string> here_ends_;
  std::vector<RawCommand> commands_;
};

}  // namespace

CutScript cut_shell_script(std::string_view text) {
  CutScript script;
  Lexer lexer(text, script.sbatch);
  script.commands = lexer.run();
  script.open_line = lexer.failed_line();
  return script;
}

}  // namespace megatwin::scenarios

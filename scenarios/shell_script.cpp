#include "scenarios/shell_script.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "scenarios/document.h"
#include "scenarios/shell_arithmetic.h"

namespace megatwin::scenarios {
namespace {

// Far beyond any launch script; words that double at each line stop here.
constexpr std::size_t kWordMax = 64U << 10U;
constexpr std::size_t kWordsMax = 20'000;
constexpr int kDepthMax = 32;

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

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

// The name of NAME=… or NAME+=…, and how many characters of the first piece it takes.
struct Assignment {
  std::string name;
  bool appends = false;
  std::size_t length = 0;
};
std::optional<Assignment> assignment_of(const RawWord& word) {
  if (word.pieces.empty() || word.pieces.front().quote != Piece::Quote::None) return std::nullopt;
  const std::string& text = word.pieces.front().text;
  if (text.empty() || !is_name_start(text.front())) return std::nullopt;
  std::size_t end = 0;
  while (end < text.size() && is_name(text[end])) ++end;
  Assignment assignment{.name = text.substr(0, end)};
  if (end < text.size() && text[end] == '+') {
    assignment.appends = true;
    ++end;
  }
  if (end >= text.size() || text[end] != '=') return std::nullopt;
  assignment.length = end + 1;
  return assignment;
}

// Runs assignments and expands the rest.
class Interpreter {
 public:
  explicit Interpreter(ShellScript& script) : script_(script) {}

  void run(const std::vector<RawCommand>& commands) {
    for (const RawCommand& command : commands) run(command);
  }

 private:
  void run(const RawCommand& command) {
    std::size_t first = 0;
    // Words that only open or close a block stand before a command.
    while (first < command.size() && opens_or_closes(command[first])) ++first;
    while (first < command.size()) {
      const std::string word = command[first].plain();
      const bool declares = word == "export" || word == "declare" || word == "local" ||
                            word == "readonly" || word == "typeset";
      if (!declares) break;
      ++first;
      while (first < command.size() && command[first].plain().starts_with("-")) ++first;
    }
    std::size_t next = first;
    while (next < command.size()) {
      const auto assignment = assignment_of(command[next]);
      if (!assignment) break;
      assign(*assignment, command[next]);
      ++next;
    }
    if (next >= command.size()) return;
    if (command[next].plain() == "[" || command[next].plain() == "[[") return;
    ShellCommand expanded{.line = command[next].line};
    for (std::size_t i = next; i < command.size(); ++i) expand(command[i], expanded.words);
    if (!expanded.words.empty()) script_.commands.push_back(std::move(expanded));
  }

  bool opens_or_closes(const RawWord& word) {
    static const std::set<std::string> opening = {"if", "while", "for", "case", "until"};
    static const std::set<std::string> closing = {"fi", "done", "esac"};
    static const std::set<std::string> inside = {"then", "else", "elif", "do", "{", "}", "!"};
    if (word.is_quoted()) return false;
    const std::string text = word.plain();
    if (opening.contains(text)) {
      ++blocks_;
      return true;
    }
    if (closing.contains(text)) {
      blocks_ = std::max(0, blocks_ - 1);
      return true;
    }
    return inside.contains(text);
  }

  void assign(const Assignment& assignment, const RawWord& word) {
    const std::string& name = assignment.name;
    if (blocks_ > 0 && (script_.variables.contains(name) || script_.arrays.contains(name))) {
      warn("line " + std::to_string(word.line) + ": " + name +
           " is also set under a condition; the value before it is taken");
      return;
    }
    if (word.is_array) {
      std::vector<ShellWord> items;
      for (const RawWord& item : word.items) expand(item, items);
      if (!script_.arrays.contains(name)) script_.array_order.push_back(name);
      std::vector<ShellWord>& array = script_.arrays[name];
      if (!assignment.appends) array.clear();
      for (ShellWord& item : items) {
        if (array.size() < kWordsMax) array.push_back(std::move(item));
      }
      return;
    }
    RawWord value = word;
    value.pieces.front().text.erase(0, assignment.length);
    ShellWord text = joined(value);
    if (assignment.appends) {
      const auto before = script_.variables.find(name);
      if (before != script_.variables.end()) text.text = before->second.text + text.text;
    }
    if (text.text.size() > kWordMax) text = {"", false};
    script_.variables[name] = std::move(text);
  }

  // A word that is not split at blanks.
  ShellWord joined(const RawWord& word) {
    ShellWord all;
    for (const Piece& piece : word.pieces) {
      if (piece.quote == Piece::Quote::Single) {
        all.text += piece.text;
        continue;
      }
      const ShellWord part = substituted(piece.text, 0);
      all.text += part.text;
      all.resolved = all.resolved && part.resolved;
    }
    return all;
  }

  void expand(const RawWord& word, std::vector<ShellWord>& words) {
    if (words.size() >= kWordsMax) return;
    if (const auto array = whole_array(word)) {
      for (const ShellWord& item : *array) {
        if (words.size() < kWordsMax) words.push_back(item);
      }
      return;
    }
    const bool splits = !word.is_quoted() && word.plain().find('$') != std::string::npos;
    ShellWord text = joined(word);
    if (text.text.size() > kWordMax) text = {"", false};
    if (!splits || !text.resolved) {
      if (!text.text.empty() || word.is_quoted() || !text.resolved)
        words.push_back(std::move(text));
      return;
    }
    std::size_t at = 0;
    while (at < text.text.size() && words.size() < kWordsMax) {
      while (at < text.text.size() && (is_blank(text.text[at]) || text.text[at] == '\n')) ++at;
      const std::size_t begin = at;
      while (at < text.text.size() && !is_blank(text.text[at]) && text.text[at] != '\n') ++at;
      if (at > begin) words.push_back({text.text.substr(begin, at - begin), true});
    }
  }

  // ${NAME[@]} or ${NAME[*]} alone in a word, quoted or not.
  std::optional<std::vector<ShellWord>> whole_array(const RawWord& word) const {
    std::string text;
    for (const Piece& piece : word.pieces) {
      if (piece.quote == Piece::Quote::Single) return std::nullopt;
      text += piece.text;
    }
    if (!text.starts_with("${") || !text.ends_with("]}") || text.size() < 6) return std::nullopt;
    const std::string inside = text.substr(2, text.size() - 3);
    const std::size_t bracket = inside.find('[');
    if (bracket == std::string::npos) return std::nullopt;
    const std::string index = inside.substr(bracket);
    if (index != "[@]" && index != "[*]") return std::nullopt;
    const auto found = script_.arrays.find(inside.substr(0, bracket));
    if (found == script_.arrays.end()) return std::vector<ShellWord>{{text, false}};
    return found->second;
  }

  ShellWord substituted(std::string_view text, int depth) {
    ShellWord out;
    if (depth > kDepthMax) return {std::string(text), false};
    std::size_t at = 0;
    while (at < text.size() && out.text.size() <= kWordMax) {
      if (text[at] == '`') {
        const std::size_t end = text.find('`', at + 1);
        out.text += text.substr(at, end == std::string_view::npos ? end : end + 1 - at);
        out.resolved = false;
        note_command();
        at = end == std::string_view::npos ? text.size() : end + 1;
        continue;
      }
      if (text[at] != '$') {
        out.text += text[at++];
        continue;
      }
      const std::size_t end = end_of_dollar(text, at);
      const ShellWord part = value_of(text.substr(at, end - at), depth);
      out.text += part.text;
      out.resolved = out.resolved && part.resolved;
      at = end;
    }
    return out;
  }

  static std::size_t end_of_dollar(std::string_view text, std::size_t at) {
    std::size_t end = at + 1;
    if (end >= text.size()) return end;
    const char open = text[end];
    if (open == '{' || open == '(') {
      const char close = open == '{' ? '}' : ')';
      int depth = 0;
      for (; end < text.size(); ++end) {
        if (text[end] == open) ++depth;
        if (text[end] == close && --depth == 0) return end + 1;
      }
      return end;
    }
    if (!is_name_start(open)) return end + 1;
    while (end < text.size() && is_name(text[end])) ++end;
    return end;
  }

  // `dollar` is $NAME, ${…}, $((…)), $(…) or a special parameter.
  ShellWord value_of(std::string_view dollar, int depth) {
    if (dollar.starts_with("$((") && dollar.ends_with("))")) {
      const auto number =
          shell_arithmetic(dollar.substr(3, dollar.size() - 5),
                           [&](const std::string& name) { return number_of(name); });
      if (number) return {std::to_string(*number), true};
      return {std::string(dollar), false};
    }
    if (dollar.starts_with("$(")) {
      note_command();
      return {std::string(dollar), false};
    }
    if (dollar.starts_with("${") && dollar.ends_with("}")) {
      return braced(dollar.substr(2, dollar.size() - 3), dollar, depth);
    }
    if (dollar.size() == 1) return {"$", true};
    return named(std::string(dollar.substr(1)), dollar);
  }

  std::optional<std::int64_t> number_of(const std::string& name) {
    const ShellWord word = named(name, "$" + name);
    std::int64_t number = 0;
    const char* end = word.text.data() + word.text.size();
    const auto [rest, error] = std::from_chars(word.text.data(), end, number);
    if (!word.resolved || error != std::errc{} || rest != end) return std::nullopt;
    return number;
  }

  ShellWord named(const std::string& name, std::string_view written) {
    const auto found = script_.variables.find(name);
    if (found != script_.variables.end()) return found->second;
    note_unset(name);
    return {std::string(written), false};
  }

  // NAME, NAME:-default, NAME-default, NAME:=default, NAME[@].
  ShellWord braced(std::string_view inside, std::string_view written, int depth) {
    std::size_t end = 0;
    if (!inside.empty() && !is_name_start(inside.front())) {
      end = 1;  // $1 and its like.
    } else {
      while (end < inside.size() && is_name(inside[end])) ++end;
    }
    const std::string name(inside.substr(0, end));
    std::string_view rest = inside.substr(end);
    const auto found = script_.variables.find(name);
    const bool has_value = found != script_.variables.end();
    if (rest.empty()) return named(name, written);
    if (rest == "[@]" || rest == "[*]") return array_text(name, written);
    const bool colon = rest.starts_with(":");
    if (colon) rest.remove_prefix(1);
    if (rest.starts_with("-") || rest.starts_with("=")) {
      const bool assigns = rest.front() == '=';
      if (has_value && !(colon && found->second.text.empty())) return found->second;
      ShellWord fallback = substituted(rest.substr(1), depth + 1);
      if (assigns) script_.variables[name] = fallback;
      return fallback;
    }
    if (rest.starts_with("?") && has_value) return found->second;
    note_unset(name);
    return {std::string(written), false};
  }

  ShellWord array_text(const std::string& name, std::string_view written) const {
    const auto found = script_.arrays.find(name);
    if (found == script_.arrays.end()) return {std::string(written), false};
    ShellWord text;
    for (const ShellWord& item : found->second) {
      if (text.text.size() > kWordMax) return {"", false};
      text.text += (text.text.empty() ? "" : " ") + item.text;
      text.resolved = text.resolved && item.resolved;
    }
    return text;
  }

  void note_unset(const std::string& name) {
    auto& unset = script_.unset;
    if (std::find(unset.begin(), unset.end(), name) == unset.end()) unset.push_back(name);
  }

  void note_command() { warn("the output of a command is not known without running it"); }

  void warn(const std::string& text) {
    auto& warnings = script_.warnings;
    if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) {
      warnings.push_back(text);
    }
  }

  ShellScript& script_;
  int blocks_ = 0;
};

}  // namespace

model::Result<ShellScript> parse_shell_script(const std::string& file, std::string_view text) {
  model::Diagnostics faults = check_text(file, text);
  if (!faults.empty()) return model::fail(std::move(faults));
  ShellScript script;
  Lexer lexer(text, script.sbatch);
  const std::vector<RawCommand> commands = lexer.run();
  if (const auto line = lexer.failed_line()) {
    return model::fail(
        model::Diagnostic{.file = file,
                          .line = *line,
                          .column = 1,
                          .message = "a quote or bracket that opens here is never closed",
                          .allowed = "a bash script or Megatron-LM arguments"});
  }
  Interpreter(script).run(commands);
  return script;
}

}  // namespace megatwin::scenarios

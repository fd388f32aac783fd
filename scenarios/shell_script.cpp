#include "scenarios/shell_script.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "scenarios/document.h"
#include "scenarios/shell_arithmetic.h"
#include "scenarios/shell_lexer.h"

namespace megatwin::scenarios {
namespace {

// Far beyond any launch script; words that double at each line stop here.
constexpr std::size_t kWordMax = 64U << 10U;
constexpr std::size_t kWordsMax = 20'000;
constexpr int kExpansionDepthMax = 32;

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
    if (depth > kExpansionDepthMax) return {std::string(text), false};
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
  CutScript cut = cut_shell_script(text);
  if (const auto line = cut.open_line) {
    return model::fail(
        model::Diagnostic{.file = file,
                          .line = *line,
                          .column = 1,
                          .message = "a quote or bracket that opens here is never closed",
                          .allowed = "a bash script or Megatron-LM arguments"});
  }
  script.sbatch = std::move(cut.sbatch);
  Interpreter(script).run(cut.commands);
  return script;
}

}  // namespace megatwin::scenarios

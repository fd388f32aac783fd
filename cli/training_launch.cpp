#include "cli/training_launch.h"

#include <algorithm>
#include <thread>
#include <unistd.h>
#include <vector>

#include "model/plugin_path.h"

namespace megatwin::cli {
namespace {

// As a shell takes it for one word.
std::string quoted(const std::string& word) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string("-_./=:,+%@").find(c) != std::string::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string training_launch_line(const TrainArguments& arguments, int num_ranks) {
  std::vector<std::string> words = {"mpirun", "-n", std::to_string(num_ranks)};
  // A process has a thread for its rank and one for its messages: no core of its own.
  words.insert(words.end(), {"--bind-to", "none"});
  if (num_ranks > static_cast<int>(std::thread::hardware_concurrency())) {
    words.push_back("--oversubscribe");
  }
  if (geteuid() == 0) words.push_back("--allow-run-as-root");
  words.insert(words.end(), {model::beside_the_program("megatwin"), "train", arguments.file});
  for (const std::string& setting : arguments.settings) {
    words.insert(words.end(), {"--set", setting});
  }
  const auto add = [&](const std::string& option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--backend", arguments.backend);
  add("--order", arguments.order);
  add("--from", arguments.weights_from);
  add("--log", arguments.log);
  add("--replay", arguments.replay);
  add("--trace", arguments.trace);
  if (!arguments.trace.empty()) add("--trace-steps", std::to_string(arguments.trace_steps));
  if (arguments.resume) words.emplace_back("--resume");
  if (arguments.json) words.emplace_back("--json");
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + quoted(word);
  return line + "\n";
}

}  // namespace megatwin::cli

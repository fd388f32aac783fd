#include "traces/executor_log.h"

#include <limits>
#include <sstream>

namespace megatwin::traces {
namespace {

using model::DecisionRecord;
using model::ExecutorEvent;
using model::ExecutorEventKind;

constexpr std::string_view kFirstLine = "megatwin log 1";
constexpr std::uint64_t kEventsMax = 100'000'000;

// Reads line by line and remembers the first that is not what it should be.
class LogReader {
 public:
  LogReader(const std::string& file, std::string_view text)
      : file_(file), lines_(std::string(text)) {}

  model::Result<RunLog> read() {
    RunLog log;
    if (!next() || line_ != kFirstLine) return fail("is no log of a run", std::string(kFirstLine));
    if (!read_head(log)) {
      return fail("is no head of a log",
                  "program HASH policy NAME depth N slots N memory BYTES "
                  "in_order 0 or 1");
    }
    while (next()) {
      if (line_.empty()) continue;
      if (!read_step(log)) {
        return fail("is not what the log says that comes here",
                    "rank R stage S step N events N decisions N, then as many lines");
      }
    }
    return log;
  }

 private:
  bool next() {
    ++number_;
    return static_cast<bool>(std::getline(lines_, line_));
  }
  model::Result<RunLog> fail(const std::string& message, const std::string& allowed) const {
    return model::fail(model::Diagnostic{
        .file = file_, .line = number_, .message = "this line " + message, .allowed = allowed});
  }

  // The words of the line that must be the names, the others are values.
  template <class... Values>
  bool parse(std::istringstream& words, const char* name, Values&... values) const {
    std::string word;
    if (!(words >> word) || word != name) return false;
    return static_cast<bool>((words >> ... >> values));
  }

  bool read_head(RunLog& log) {
    if (!next()) return false;
    std::istringstream words(line_);
    return parse(words, "program", log.program_hash) && parse(words, "policy", log.policy) &&
           parse(words, "depth", log.issue_depth) && parse(words, "slots", log.receive_slots) &&
           parse_memory(words, log.memory_limit) &&
           parse(words, "in_order", log.gradients_in_order);
  }

  bool parse_memory(std::istringstream& words, model::Bytes& limit) const {
    std::string text;
    if (!parse(words, "memory", text)) return false;
    limit.value = text == "unlimited" ? std::numeric_limits<double>::infinity()
                                      : std::strtod(text.c_str(), nullptr);
    return true;
  }

  bool read_step(RunLog& log) {
    LoggedStep step;
    std::uint64_t events = 0;
    std::uint64_t decisions = 0;
    std::istringstream words(line_);
    if (!parse(words, "rank", step.rank.value) || !parse(words, "stage", step.stage.value) ||
        !parse(words, "step", step.step) || !parse(words, "events", events) ||
        !parse(words, "decisions", decisions) || events > kEventsMax || decisions > kEventsMax) {
      return false;
    }
    for (std::uint64_t i = 0; i < events; ++i) {
      if (!next() || !read_event(step.log)) return false;
    }
    for (std::uint64_t i = 0; i < decisions; ++i) {
      if (!next() || !read_decision(step.log)) return false;
    }
    log.steps.push_back(std::move(step));
    return true;
  }

  bool read_event(model::ExecutorLog& log) const {
    int kind = 0;
    ExecutorEvent event;
    std::istringstream words(line_);
    if (!parse(words, "e", kind, event.duration, event.id) || kind < 0 ||
        kind > static_cast<int>(ExecutorEventKind::OrderAnnounced)) {
      return false;
    }
    event.kind = static_cast<ExecutorEventKind>(kind);
    log.events.push_back(event);
    return true;
  }

  bool read_decision(model::ExecutorLog& log) const {
    DecisionRecord decision;
    std::istringstream words(line_);
    if (!parse(words, "d", decision.task, decision.after_event, decision.state_hash)) return false;
    log.decisions.push_back(decision);
    return true;
  }

  std::string file_;
  std::istringstream lines_;
  std::string line_;
  int number_ = 0;
};

}  // namespace

std::string log_text(const RunLog& log) {
  std::ostringstream text;
  text.precision(17);
  text << kFirstLine << "\nprogram " << log.program_hash << " policy " << log.policy << " depth "
       << log.issue_depth << " slots " << log.receive_slots << " memory ";
  if (log.memory_limit.value < std::numeric_limits<double>::infinity()) {
    text << log.memory_limit.value;
  } else {
    text << "unlimited";
  }
  text << " in_order " << (log.gradients_in_order ? 1 : 0) << "\n";
  for (const LoggedStep& step : log.steps) {
    text << "rank " << step.rank.value << " stage " << step.stage.value << " step " << step.step
         << " events " << step.log.events.size() << " decisions " << step.log.decisions.size()
         << "\n";
    for (const ExecutorEvent& event : step.log.events) {
      text << "e " << static_cast<int>(event.kind) << " " << event.duration << " " << event.id
           << "\n";
    }
    for (const DecisionRecord& decision : step.log.decisions) {
      text << "d " << decision.task << " " << decision.after_event << " " << decision.state_hash
           << "\n";
    }
  }
  return text.str();
}

model::Result<RunLog> parse_log(const std::string& file, std::string_view text) {
  return LogReader(file, text).read();
}

}  // namespace megatwin::traces

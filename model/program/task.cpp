#include "model/program/task.h"

#include <array>
#include <charconv>

namespace megatwin::model {
namespace {

constexpr std::string_view kLetters = "FBIWR";

std::optional<std::int32_t> number_from_text(std::string_view text) {
  std::int32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 0) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::string to_text(const Task& task) {
  return kLetters[static_cast<std::size_t>(task.kind)] + std::to_string(task.micro_batch.value) +
         "." + std::to_string(task.chunk.value);
}

std::optional<Task> task_from_text(std::string_view text) {
  if (text.empty()) {
    return std::nullopt;
  }
  const std::size_t letter = kLetters.find(text.front());
  const std::size_t dot = text.find('.');
  if (letter == std::string_view::npos || dot == std::string_view::npos) {
    return std::nullopt;
  }
  const auto micro_batch = number_from_text(text.substr(1, dot - 1));
  const auto chunk = number_from_text(text.substr(dot + 1));
  if (!micro_batch || !chunk) {
    return std::nullopt;
  }
  return Task{static_cast<TaskKind>(letter), MicroBatchId{*micro_batch}, ChunkId{*chunk}};
}

}  // namespace megatwin::model

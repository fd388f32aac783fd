// Compares timelines and shows the first record that differs in words.
#ifndef MEGATWIN_TESTS_SIM_TIMELINES_H_
#define MEGATWIN_TESTS_SIM_TIMELINES_H_

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/program/event_record.h"

namespace megatwin::tests {

inline std::string to_text(const model::EventRecord& record) {
  return "rank " + std::to_string(record.rank.value) + " lane " +
         std::to_string(static_cast<int>(record.lane)) + " kind " +
         std::to_string(static_cast<int>(record.kind)) + " " +
         std::to_string(record.micro_batch.value) + "." + std::to_string(record.chunk.value) +
         " [" + std::to_string(record.start.ns) + ", " + std::to_string(record.end.ns) + "]";
}

inline ::testing::AssertionResult same_timeline(const std::vector<model::EventRecord>& a,
                                                const std::vector<model::EventRecord>& b) {
  for (std::size_t n = 0; n < std::min(a.size(), b.size()); ++n) {
    if (a[n] == b[n]) continue;
    return ::testing::AssertionFailure()
           << "record " << n << ": " << to_text(a[n]) << " against " << to_text(b[n]);
  }
  if (a.size() != b.size()) {
    return ::testing::AssertionFailure() << a.size() << " records against " << b.size();
  }
  return ::testing::AssertionSuccess();
}

}  // namespace megatwin::tests

#endif  // MEGATWIN_TESTS_SIM_TIMELINES_H_

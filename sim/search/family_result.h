// What pricing one family of plans gives: the pieces that Candidates::enumerate() is made of.
#ifndef MEGATWIN_SIM_SEARCH_FAMILY_RESULT_H_
#define MEGATWIN_SIM_SEARCH_FAMILY_RESULT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "model/job.h"
#include "sim/search/byte_stream.h"
#include "sim/search/candidates.h"
#include "sim/search/plan_list.h"
#include "sim/search/search_space.h"

namespace megatwin::sim {

struct FamilyResult {
  std::vector<Candidate> fitting;
  std::vector<std::vector<ValueCount>> counts;  // By key and index of its value.
  std::optional<Candidate> leanest;
  std::int64_t num_legal = 0;
};

FamilyResult family_result(const model::Job& job, const SearchSpace& space,
                           model::Bytes memory_limit, const PlanFamily& family,
                           SearchWorker& worker);

std::vector<std::vector<ValueCount>> no_counts(const SearchSpace& space);

bool is_leaner(const Candidate& a, const std::optional<Candidate>& b);

void write(const FamilyResult& result, ByteWriter& out);
FamilyResult read_family_result(ByteReader& in);

}  // namespace megatwin::sim

#endif  // MEGATWIN_SIM_SEARCH_FAMILY_RESULT_H_

// The answer of a search as text and as JSON (the `search` keys of docs/search.md). Pure: the
// caller prints.
#ifndef MEGATWIN_CLI_REPORT_SEARCH_REPORT_H_
#define MEGATWIN_CLI_REPORT_SEARCH_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "sim/purchase/unmet_wish.h"
#include "sim/search/search.h"
#include "sim/search/what_if.h"

namespace megatwin::cli {

struct SearchSummary {
  const model::Job& job;
  const sim::SearchSpace& space;
  const sim::SearchResult& result;
  const std::vector<sim::WhatIf>& what_if;  // Empty when it was not asked.
  // With a training section: the whole run with each of the best, and what to relax when none of
  // them keeps its limits.
  const std::vector<sim::PurchaseOption>& runs;
  const std::optional<sim::UnmetWish>& unmet;
  model::Seconds elapsed;
};

std::string terminal_search(const SearchSummary& summary);
std::string json_search(const SearchSummary& summary);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_SEARCH_REPORT_H_

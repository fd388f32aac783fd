// The answer of a search as text and as JSON (the `search` keys of docs/search.md). Pure: the
// caller prints.
#ifndef MEGATWIN_CLI_REPORT_SEARCH_REPORT_H_
#define MEGATWIN_CLI_REPORT_SEARCH_REPORT_H_

#include <string>

#include "sim/search/search.h"

namespace megatwin::cli {

struct SearchSummary {
  const model::Job& job;
  const sim::SearchResult& result;
  model::Seconds elapsed;
};

std::string terminal_search(const SearchSummary& summary);
std::string json_search(const SearchSummary& summary);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_SEARCH_REPORT_H_

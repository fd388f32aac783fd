// The bar charts of the HTML report: where the step goes, memory by stage, sensitivities, runs side
// by side. Each gives a fragment; colours come from report.css by class. Bars are SVG stretched to
// the width of the page, labels are HTML, so that text keeps its size on a phone.
#ifndef MEGATWIN_CLI_REPORT_HTML_BARS_H_
#define MEGATWIN_CLI_REPORT_HTML_BARS_H_

#include <span>
#include <string>
#include <vector>

#include "sim/simulation_report.h"

namespace megatwin::cli {

std::string breakdown_chart(const sim::SimulationReport& report);
std::string memory_chart(const sim::SimulationReport& report);
std::string sensitivity_chart(const sim::SimulationReport& report);
std::string comparison_chart(std::span<const sim::SimulationReport* const> reports);

struct Slice {
  std::string css_class;
  std::string title;  // Shown under the pointer.
  double share = 0;   // Of the bar's full width.
};
// One stacked bar. Slices narrower than the eye are still there for the pointer.
std::string stacked_bar(const std::vector<Slice>& slices, const std::string& label);

struct LegendEntry {
  std::string css_class;
  std::string name;
};
std::string legend(const std::vector<LegendEntry>& entries);

// At most `most` of 0 … count−1, evenly spaced, with both ends: which rows of a long chart are
// drawn.
std::vector<int> evenly_spaced(int count, int most);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_HTML_BARS_H_

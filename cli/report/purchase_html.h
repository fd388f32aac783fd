// The answer of `megatwin plan` as one HTML file that stands alone: the machines to take, scaling
// curves of every kind on offer, and what to relax when nothing keeps the limits. Pure.
#ifndef MEGATWIN_CLI_REPORT_PURCHASE_HTML_H_
#define MEGATWIN_CLI_REPORT_PURCHASE_HTML_H_

#include <string>

#include "cli/report/purchase_report.h"

namespace megatwin::cli {

std::string html_purchase(const PurchaseSummary& summary);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_PURCHASE_HTML_H_

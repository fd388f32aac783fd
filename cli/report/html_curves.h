// The scaling curves of the HTML report: throughput, efficiency and step time over GPUs, as SVG.
#ifndef MEGATWIN_CLI_REPORT_HTML_CURVES_H_
#define MEGATWIN_CLI_REPORT_HTML_CURVES_H_

#include <string>

#include "cli/report/scaling.h"

namespace megatwin::cli {

std::string scaling_charts(const ScalingCurve& curve);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_HTML_CURVES_H_

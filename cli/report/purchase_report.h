// The answer of `megatwin plan` as text and as JSON (the keys of docs/plan.md). Pure: the caller
// prints.
#ifndef MEGATWIN_CLI_REPORT_PURCHASE_REPORT_H_
#define MEGATWIN_CLI_REPORT_PURCHASE_REPORT_H_

#include <string>
#include <vector>

#include "cli/report/json_writer.h"
#include "model/job.h"
#include "sim/purchase/purchase.h"

namespace megatwin::cli {

struct PurchaseSummary {
  const model::Job& job;
  const model::TrainingWish& wish;
  const sim::PurchaseAnswer& answer;
  model::Seconds elapsed;
};

std::string terminal_purchase(const PurchaseSummary& summary);
std::string json_purchase(const PurchaseSummary& summary);

// "128 of dgx-h100", "budget: $5,100,000 instead of $4,000,000": shared with the page.
std::string machines_text(const PurchaseSummary& summary, const sim::PurchaseOption& option);
std::string relaxation_text(const sim::UnmetWish::Relaxation& relaxation);
// Why the MFU is as high as it is: a table, its head first, of the choice and the highest of each
// kind; empty without options.
std::string utilisation_title(const PurchaseSummary& summary);
std::vector<std::vector<std::string>> utilisation_rows(const PurchaseSummary& summary);
constexpr const char* kUtilisationNote =
    "the same plan with what published runs often do instead; all GPUs at full speed, failures are "
    "in the goodput";
// "knee", or "no knee yet" at the largest number on offer: nobody saw more machines stop paying.
// Requires: the curve has options.
std::string knee_mark(const sim::OfferCurve& curve);
// "36.5 days, $1,205,136, 147 kW, 129 MWh".
std::string run_text(const sim::TrainingRun& run);
void write_training_run(JsonWriter& json, const sim::TrainingRun& run);
std::string limits_text(const model::TrainingWish& wish);

}  // namespace megatwin::cli

#endif  // MEGATWIN_CLI_REPORT_PURCHASE_REPORT_H_

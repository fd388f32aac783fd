#include "cli/report/html_timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "cli/report/format.h"
#include "cli/report/html_bars.h"
#include "cli/report/perfetto_trace.h"

namespace megatwin::cli {
namespace {

using model::EventKind;
using model::EventRecord;
using model::Lane;

constexpr double kRowUnits = 100'000;  // Width of a row's view box; its height is 20.
constexpr int kKinds = 10;

const char* css_class_of(EventKind kind) {
  static constexpr std::array<const char*, kKinds> kClasses = {
      "k-f", "k-b", "k-bi", "k-bw", "k-r", "k-sa", "k-sg", "k-pg", "k-gr", "k-o"};
  return kClasses[static_cast<std::size_t>(kind)];
}

// Where a lane lies in a row: compute on top, three thin lanes of traffic under it.
struct Band {
  double top = 0, height = 0;
};
Band band_of(Lane lane) {
  switch (lane) {
    case Lane::Compute:
      return {0, 13};
    case Lane::SendForward:
      return {13.6, 1.8};
    case Lane::SendBackward:
      return {15.8, 1.8};
    case Lane::DataParallel:
      return {18, 2};
  }
  return {};
}

using Records = std::vector<const EventRecord*>;

class Timeline {
 public:
  Timeline(const sim::SimulationReport& report, const TimelineLimits& limits) : report_(report) {
    for (const EventRecord& record : report.timeline) {
      by_rank_[record.rank.value].push_back(&record);
      end_ = std::max(end_, record.end.ns);
      kinds_.insert(record.kind);
    }
    std::vector<int> ranks;
    for (const auto& [rank, records] : by_rank_) ranks.push_back(rank);
    for (const int index : evenly_spaced(static_cast<int>(ranks.size()), limits.rows)) {
      shown_.push_back(ranks[static_cast<std::size_t>(index)]);
      num_records_ += by_rank_[shown_.back()].size();
    }
    if (num_records_ > static_cast<std::size_t>(limits.rectangles)) {
      columns_ = std::clamp(limits.rectangles / (static_cast<int>(shown_.size()) * 5), 40, 400);
    }
  }

  std::string draw() {
    std::string html = legend(entries());
    html +=
        fmt::format("<div class=\"scroll\"><div class=\"timeline{}\">", columns_ ? " fine" : "");
    html += axis();
    const bool stages = static_cast<int>(by_rank_.size()) == report_.plan.pipeline;
    for (const int rank : shown_) {
      const std::string name = rank_text(report_.plan, static_cast<int>(by_rank_.size()), rank);
      html += fmt::format(
          "<span class=\"label\">{}</span><svg viewBox=\"0 0 {:.0f} 20\" "
          "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"timeline of {}\">{}</svg>",
          name, kRowUnits, name, columns_ > 0 ? shares(by_rank_[rank]) : tasks(by_rank_[rank]));
    }
    return html + "</div></div>" + caption(stages);
  }

 private:
  double position(std::int64_t ns) const {
    return static_cast<double>(ns) / static_cast<double>(end_) * kRowUnits;
  }

  std::vector<LegendEntry> entries() const {
    std::vector<LegendEntry> list;
    for (const EventKind kind : kinds_) {
      list.push_back({css_class_of(kind), std::string(event_text(kind))});
    }
    return list;
  }

  // About eight round instants.
  std::string axis() const {
    const double raw = static_cast<double>(end_) / 8;
    const double power = std::pow(10, std::floor(std::log10(raw)));
    const double step = (raw > 5 * power ? 10 : raw > 2 * power ? 5 : raw > power ? 2 : 1) * power;
    std::string html = "<span></span><div class=\"axis\">";
    for (int i = 0; i * step < static_cast<double>(end_) * 0.97; ++i) {
      const double tick = i * step;
      html += fmt::format("<i style=\"left:{:.3f}%\">{}</i>",
                          tick / static_cast<double>(end_) * 100, format_time({tick * 1e-9}));
    }
    return html + "</div>";
  }

  // Later chunks are paler, so that one can follow a micro-batch through the interleaving.
  double opacity_of(const EventRecord& record) const {
    const int chunks = report_.plan.model_chunks;
    if (chunks < 2 || record.lane != Lane::Compute || record.micro_batch.value < 0) return 1;
    return 1 - 0.6 * record.chunk.value / (chunks - 1);
  }

  std::string tasks(const Records& records) const {
    std::string svg;
    for (const EventRecord* record : records) {
      const Band band = band_of(record->lane);
      const double opacity = opacity_of(*record);
      std::string name(event_text(record->kind));
      if (record->micro_batch.value >= 0) {
        name += fmt::format(", micro-batch {}, chunk {}", record->micro_batch.value,
                            record->chunk.value);
      }
      svg += fmt::format(
          "<rect class=\"{}{}\" x=\"{:.0f}\" y=\"{}\" width=\"{:.0f}\" height=\"{}\"{}><title>{}: "
          "{} "
          "from {}</title></rect>",
          css_class_of(record->kind), record->lane == Lane::Compute ? "" : " thin",
          position(record->start.ns), band.top,
          std::max(1.0, position((record->end - record->start).ns)), band.height,
          opacity < 1 ? fmt::format(" opacity=\"{:.2f}\"", opacity) : "", name,
          format_time(model::to_seconds(record->end - record->start)),
          format_time(model::to_seconds(record->start)));
    }
    return svg;
  }

  // Per lane and column the time of each kind, drawn as the heights of a stack.
  std::string shares(const Records& records) const {
    using Column = std::array<double, kKinds>;
    std::map<Lane, std::vector<Column>> lanes;
    const double width = static_cast<double>(end_) / columns_;
    for (const EventRecord* record : records) {
      auto& columns = lanes[record->lane];
      columns.resize(static_cast<std::size_t>(columns_), Column{});
      const auto start = static_cast<double>(record->start.ns);
      const auto stop = static_cast<double>(record->end.ns);
      const int last = std::min(columns_ - 1, static_cast<int>(stop / width));
      for (int c = static_cast<int>(start / width); c <= last; ++c) {
        const double overlap = std::min(stop, (c + 1) * width) - std::max(start, c * width);
        columns[static_cast<std::size_t>(c)][static_cast<std::size_t>(record->kind)] +=
            std::max(0.0, overlap) / width;
      }
    }
    std::string svg;
    for (const auto& [lane, columns] : lanes) {
      const Band band = band_of(lane);
      for (std::size_t c = 0; c < columns.size(); ++c) svg += stack(columns[c], c, band);
    }
    return svg;
  }

  std::string stack(const std::array<double, kKinds>& column, std::size_t index, Band band) const {
    std::string svg;
    double bottom = band.top + band.height;
    for (std::size_t kind = 0; kind < column.size(); ++kind) {
      const double height = std::min(1.0, column[kind]) * band.height;
      if (height < 0.02) continue;
      bottom = std::max(band.top, bottom - height);
      svg += fmt::format(
          "<rect class=\"{}\" x=\"{:.0f}\" y=\"{:.2f}\" width=\"{:.0f}\" height=\"{:.2f}\"/>",
          css_class_of(static_cast<EventKind>(kind)),
          static_cast<double>(index) * kRowUnits / columns_, bottom, kRowUnits / columns_, height);
    }
    return svg;
  }

  std::string caption(bool stages) const {
    std::string text =
        "Upper band: compute; lower bands: activations sent, gradients sent, "
        "data-parallel traffic. Gaps are idle.";
    if (columns_ == 0 && report_.plan.model_chunks > 1) text += " Paler is a later model chunk.";
    if (shown_.size() < by_rank_.size()) {
      text += fmt::format(" {} of {} {} are drawn.", shown_.size(), by_rank_.size(),
                          stages ? "stages" : "rows");
    }
    if (columns_ > 0) {
      text += fmt::format(
          " {} spans are too many to draw one by one: each of {} columns shows which share of its "
          "time went where; --trace has every span.",
          format_count(static_cast<std::int64_t>(num_records_)), columns_);
    }
    return "<p class=\"hint\">" + text + "</p>";
  }

  const sim::SimulationReport& report_;
  std::map<int, Records> by_rank_;
  std::set<EventKind> kinds_;
  std::vector<int> shown_;
  std::size_t num_records_ = 0;
  std::int64_t end_ = 1;
  int columns_ = 0;  // 0: single tasks are drawn.
};

}  // namespace

std::string timeline_chart(const sim::SimulationReport& report, const TimelineLimits& limits) {
  if (report.timeline.empty()) return "";
  return Timeline(report, limits).draw();
}

}  // namespace megatwin::cli

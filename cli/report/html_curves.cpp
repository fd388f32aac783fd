#include "cli/report/html_curves.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "cli/report/format.h"

namespace megatwin::cli {
namespace {

constexpr double kWidth = 360, kHeight = 230;
constexpr double kLeft = 58, kRight = 14, kTop = 14, kBottom = 34;

struct Chart {
  std::string title;
  std::function<double(const ScalingPoint&)> value;
  std::function<double(const ScalingPoint&)> ideal;
  std::function<std::string(double)> label;
  bool logarithmic = false;
};

// Rounded up to 1, 2, 2.5 or 5 times a power of ten, for a step between ticks.
double nice_step(double raw) {
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

class Plot {
 public:
  Plot(const ScalingCurve& curve, const Chart& chart) : curve_(curve), chart_(chart) {
    for (const ScalingPoint& point : curve.points) {
      const double top = std::max(chart.value(point), chart.ideal(point));
      high_ = std::max(high_, top);
      low_ = std::min({low_, chart.value(point), chart.ideal(point)});
    }
  }

  std::string draw() const {
    std::string svg = fmt::format(
        "<figure><figcaption>{}</figcaption><svg class=\"curve\" viewBox=\"0 0 {:.0f} {:.0f}\" "
        "role=\"img\" aria-label=\"{}\">",
        chart_.title, kWidth, kHeight, chart_.title);
    for (const double tick : ticks()) {
      svg += fmt::format(
          "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
          "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
          kLeft, kWidth - kRight, y(tick), y(tick), kLeft - 6, y(tick) + 4, chart_.label(tick));
    }
    svg += x_labels() + line("ideal", chart_.ideal) + line("real", chart_.value);
    for (const ScalingPoint& point : curve_.points) {
      svg += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"><title>{}: {}</title></circle>",
          x(point.gpus), y(chart_.value(point)), format_counted(point.gpus, "GPU"),
          chart_.label(chart_.value(point)));
    }
    return svg + "</svg></figure>";
  }

 private:
  double x(int gpus) const {
    const double first = std::log(curve_.points.front().gpus);
    const double last = std::log(curve_.points.back().gpus);
    return kLeft + (std::log(gpus) - first) / (last - first) * (kWidth - kLeft - kRight);
  }

  double y(double value) const {
    const double share = chart_.logarithmic ? std::log(value / low_) / std::log(high_ / low_)
                                            : value / (high_ * 1.05);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }

  std::vector<double> ticks() const {
    std::vector<double> values;
    if (!chart_.logarithmic || high_ < 1.5 * low_) {
      const double step = nice_step(high_ / 4);
      const double start = chart_.logarithmic ? std::ceil(low_ / step) * step : 0;
      for (int i = 0; start + i * step <= high_ * 1.0001; ++i) values.push_back(start + i * step);
      return values;
    }
    const double step = std::max(2.0, std::pow(2, std::ceil(std::log2(high_ / low_) / 5)));
    for (int i = 0; low_ * std::pow(step, i) <= high_ * 1.0001; ++i) {
      values.push_back(low_ * std::pow(step, i));
    }
    return values;
  }

  // As many as find room beside each other.
  std::string x_labels() const {
    std::string svg;
    double free_from = 0;
    for (const ScalingPoint& point : curve_.points) {
      const std::string text = format_count(point.gpus);
      const double half = 3.6 * static_cast<double>(text.size());
      const double at = std::min(x(point.gpus), kWidth - half);
      if (at - half < free_from) continue;
      free_from = at + half + 6;
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", at,
                         kHeight - kBottom + 16, text);
    }
    return svg + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">GPUs</text>",
                             kWidth - kRight, kHeight - 3);
  }

  std::string line(const char* css_class,
                   const std::function<double(const ScalingPoint&)>& value) const {
    std::string points;
    for (const ScalingPoint& point : curve_.points) {
      points += fmt::format("{:.1f},{:.1f} ", x(point.gpus), y(value(point)));
    }
    return fmt::format("<polyline class=\"{}\" points=\"{}\"/>", css_class, points);
  }

  const ScalingCurve& curve_;
  const Chart& chart_;
  double high_ = 0;
  double low_ = 1e300;
};

}  // namespace

std::string scaling_charts(const ScalingCurve& curve) {
  const ScalingPoint& base = curve.points.front();
  const double base_rate = base.report->tokens_per_s;
  const double base_time = base.report->step_time.value;
  const auto growth = [&](const ScalingPoint& p) { return 1.0 * p.gpus / base.gpus; };
  const auto work = [&](const ScalingPoint& p) {
    return static_cast<double>(p.report->plan.global_batch) /
           static_cast<double>(base.report->plan.global_batch);
  };
  const std::vector<Chart> charts = {
      {"Throughput, tokens/s", [](const auto& p) { return p.report->tokens_per_s; },
       [&](const auto& p) { return base_rate * growth(p); },
       [](double v) { return format_short(v); }, true},
      {"Efficiency, against the first point", [](const auto& p) { return p.efficiency; },
       [](const auto&) { return 1.0; }, [](double v) { return format_percent_short(v); }, false},
      {"Step time", [](const auto& p) { return p.report->step_time.value; },
       [&](const auto& p) { return base_time * work(p) / growth(p); },
       [](double v) { return format_time({v}); }, true}};
  std::string html = "<div class=\"curves\">";
  for (const Chart& chart : charts) html += Plot(curve, chart).draw();
  return html +
         "</div><ul class=\"legend\"><li><i class=\"key real-key\"></i>simulated</li>"
         "<li><i class=\"key ideal-key\"></i>ideal: the first point, scaled</li></ul>";
}

}  // namespace megatwin::cli

// report_preview FOLDER: writes every report of the made-up run there, to look at them.
#include <fstream>
#include <iostream>

#include "cli/report/html_report.h"
#include "cli/report/json_report.h"
#include "cli/report/perfetto_trace.h"
#include "cli/report/terminal_report.h"
#include "tests/cli/report_fixture.h"

namespace {

using megatwin::cli::NamedAnswer;

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: report_preview FOLDER\n";
    return 2;
  }
  const std::string folder = std::string(argv[1]) + "/";
  const auto report = megatwin::tests::report_fixture();
  const auto large = megatwin::tests::report_fixture({32, 2, 256});
  std::vector<NamedAnswer> sweep;
  std::vector<megatwin::sim::SimulationReport> reports;
  for (const int gpus : {512, 1024, 2048, 4096}) {
    reports.push_back(megatwin::tests::scaled_report(gpus));
    sweep.push_back({reports.back().name, reports.back()});
  }
  sweep.push_back({"without recompute", megatwin::tests::refusal_fixture()});
  const std::vector<NamedAnswer> one = {{report.name, report}};
  const std::vector<NamedAnswer> long_run = {{large.name, large}};
  const std::vector<NamedAnswer> refused = {{"refused", megatwin::tests::refusal_fixture()}};
  write(folder + "one.html", megatwin::cli::html_report(one));
  write(folder + "large.html", megatwin::cli::html_report(long_run));
  write(folder + "sweep.html", megatwin::cli::html_report(sweep));
  write(folder + "refused.html", megatwin::cli::html_report(refused));
  write(folder + "one.json", megatwin::cli::json_answers(one));
  write(folder + "one.trace.json", megatwin::cli::perfetto_trace(report));
  std::cout << megatwin::cli::terminal_report(report, {.explain = true})
            << megatwin::cli::terminal_comparison(reports)
            << megatwin::cli::terminal_refusal(megatwin::tests::refusal_fixture());
  return 0;
}

#include "exec/report_letter.h"

namespace megatwin::exec {

ByteVector report_letter(const HostRankReport& report) {
  ByteWriter writer;
  writer.put(report.rank);
  writer.put(report.stage);
  writer.put(static_cast<std::uint64_t>(report.logs.size()));
  for (const model::ExecutorLog& log : report.logs) {
    writer.put_list(log.events);
    writer.put_list(log.decisions);
  }
  writer.put_list(report.executed);
  for (const model::Bytes bytes :
       {report.state, report.activations_max, report.activations_reserved}) {
    writer.put(bytes);
  }
  writer.put_list(report.timeline);
  return writer.take();
}

HostRankReport report_of(const ByteVector& letter) {
  ByteReader reader(letter);
  HostRankReport report;
  report.rank = reader.get<model::RankId>();
  report.stage = reader.get<model::StageId>();
  report.logs.resize(reader.get<std::uint64_t>());
  for (model::ExecutorLog& log : report.logs) {
    log.events = reader.list<model::ExecutorEvent>();
    log.decisions = reader.list<model::DecisionRecord>();
  }
  report.executed = reader.list<model::TaskId>();
  for (model::Bytes* bytes :
       {&report.state, &report.activations_max, &report.activations_reserved}) {
    *bytes = reader.get<model::Bytes>();
  }
  report.timeline = reader.list<model::EventRecord>();
  return report;
}

}  // namespace megatwin::exec

#include "model/program/program_builder.h"

#include <gtest/gtest.h>

#include "tests/sim/pipeline_specs.h"

namespace megatwin::model {
namespace {

using tests::uniform_spec;

std::string text_of(const Program& program, const Message& message) {
  if (!message.exists()) return "-";
  return "stage " + std::to_string(message.stage.value) + " " +
         to_text(program.shape.task(message.task));
}

Message sent(const Program& program, const char* task) {
  return program.sends[static_cast<std::size_t>(
      program.shape.task_id(*task_from_text(task)).value)];
}
Message received(const Program& program, const char* task) {
  return program.receives[static_cast<std::size_t>(
      program.shape.task_id(*task_from_text(task)).value)];
}
int waits(const Program& program, const char* task) {
  return program.num_waits[static_cast<std::size_t>(
      program.shape.task_id(*task_from_text(task)).value)];
}
std::vector<std::string> successors(const Program& program, const char* task) {
  std::vector<std::string> result;
  for (const TaskId id : program.successors_of(program.shape.task_id(*task_from_text(task)))) {
    result.push_back(to_text(program.shape.task(id)));
  }
  return result;
}

TEST(PipelineShape, NumbersTasksOneToOne) {
  for (const auto schedule : {ScheduleKind::Interleaved, ScheduleKind::ZeroBubbleV}) {
    const PipelineShape shape = pipeline_shape(uniform_spec({schedule, 3, 2, 5}));
    for (std::int32_t id = 0; id < shape.num_tasks(); ++id) {
      EXPECT_EQ(shape.task_id(shape.task({id})).value, id);
    }
  }
}

TEST(PipelineShape, PlacesEveryVirtualStageOnce) {
  for (const auto placement : {ChunkPlacement::RoundRobin, ChunkPlacement::Fold}) {
    for (int p = 1; p <= 5; ++p) {
      const PipelineShape shape{.pipeline = p, .model_chunks = 2, .placement = placement};
      for (int s = 0; s < shape.virtual_stages(); ++s) {
        EXPECT_EQ(shape.virtual_stage(shape.stage_of(s), shape.chunk_of(s)), s);
      }
    }
  }
}

// Interleaved, 3 stages of 2 chunks: virtual stages 0 … 5 on stages 0 1 2 0 1 2. The last stage sends
// chunk 0 on to chunk 1 of the first.
TEST(ProgramBuilder, RoundRobinRing) {
  const auto programs = build_programs(uniform_spec({ScheduleKind::Interleaved, 3, 2, 3}));
  EXPECT_EQ(text_of(programs[0], sent(programs[0], "F1.0")), "stage 1 F1.0");
  EXPECT_EQ(text_of(programs[2], sent(programs[2], "F1.0")), "stage 0 F1.1");
  EXPECT_EQ(text_of(programs[2], sent(programs[2], "F1.1")), "-");
  EXPECT_EQ(text_of(programs[0], sent(programs[0], "B1.1")), "stage 2 B1.0");
  EXPECT_EQ(text_of(programs[0], sent(programs[0], "B1.0")), "-");
  EXPECT_EQ(text_of(programs[0], received(programs[0], "F1.1")), "stage 2 F1.0");
  EXPECT_EQ(text_of(programs[0], received(programs[0], "F1.0")), "-");
  EXPECT_EQ(text_of(programs[2], received(programs[2], "B1.1")), "-");
  // Parameters; parameters and activation; forward and gradient; forward alone (the loss is here).
  EXPECT_EQ(waits(programs[0], "F0.0"), 1);
  EXPECT_EQ(waits(programs[0], "F0.1"), 2);
  EXPECT_EQ(waits(programs[0], "B0.0"), 2);
  EXPECT_EQ(waits(programs[2], "B0.1"), 1);
  EXPECT_EQ(successors(programs[0], "F2.1"), std::vector<std::string>{"B2.1"});
  EXPECT_TRUE(successors(programs[0], "B2.1").empty());
}

// The V: virtual stages 0 1 2 2 1 0. At the turn no message is sent, and the backward is split.
TEST(ProgramBuilder, FoldedChunks) {
  const auto programs = build_programs(uniform_spec({ScheduleKind::ZeroBubbleV, 3, 2, 2}));
  EXPECT_EQ(text_of(programs[2], sent(programs[2], "F0.0")), "-");
  EXPECT_EQ(successors(programs[2], "F0.0"), (std::vector<std::string>{"F0.1", "I0.0"}));
  EXPECT_EQ(text_of(programs[2], sent(programs[2], "F0.1")), "stage 1 F0.1");
  EXPECT_EQ(text_of(programs[1], sent(programs[1], "F0.1")), "stage 0 F0.1");
  EXPECT_EQ(text_of(programs[0], sent(programs[0], "F0.1")), "-");
  EXPECT_EQ(text_of(programs[0], sent(programs[0], "I0.1")), "stage 1 I0.1");
  EXPECT_EQ(text_of(programs[2], sent(programs[2], "I0.1")), "-");
  EXPECT_EQ(successors(programs[2], "I0.1"), (std::vector<std::string>{"I0.0", "W0.1"}));
  EXPECT_EQ(text_of(programs[1], sent(programs[1], "I0.0")), "stage 0 I0.0");
  EXPECT_EQ(text_of(programs[1], sent(programs[1], "W0.0")), "-");
  EXPECT_EQ(waits(programs[1], "W0.0"), 1);
}

// Whatever is sent is awaited: both ends name each other and one channel.
TEST(ProgramBuilder, BothEndsOfAMessageAgree) {
  for (const auto schedule : {ScheduleKind::GPipe, ScheduleKind::ZeroBubbleV}) {
    for (int p = 1; p <= 4; ++p) {
      const auto programs = build_programs(uniform_spec({schedule, p, 2, 3}));
      int sends = 0;
      int receives = 0;
      for (const Program& program : programs) {
        for (std::int32_t id = 0; id < program.num_tasks(); ++id) {
          const Message& message = program.sends[static_cast<std::size_t>(id)];
          receives += program.receives[static_cast<std::size_t>(id)].exists() ? 1 : 0;
          if (!message.exists()) continue;
          ++sends;
          const Program& receiver = programs[static_cast<std::size_t>(message.stage.value)];
          const Message& back = receiver.receives[static_cast<std::size_t>(message.task.value)];
          EXPECT_EQ(back.stage, program.stage);
          EXPECT_EQ(back.task.value, id);
          EXPECT_EQ(back.channel, message.channel);
        }
      }
      EXPECT_EQ(sends, receives);
    }
  }
}

}  // namespace
}  // namespace megatwin::model

#include "model/program/program_builder.h"

#include <gtest/gtest.h>

#include "tests/sim/pipeline_specs.h"

namespace megatwin::model {
namespace {

using tests::uniform_spec;

std::string text_of(const Program& program, const Message& message) {
  if (!message.exists()) {
    return "-";
  }
  return "stage " + std::to_string(message.stage.value) + " " +
         to_text(program.shape.task(message.task));
}

Message sent(const Program& program, const char* task) {
  return program
      .sends[static_cast<std::size_t>(program.shape.task_id(*task_from_text(task)).value)];
}
Message received(const Program& program, const char* task) {
  return program
      .receives[static_cast<std::size_t>(program.shape.task_id(*task_from_text(task)).value)];
}
int waits(const Program& program, const char* task) {
  return program
      .num_waits[static_cast<std::size_t>(program.shape.task_id(*task_from_text(task)).value)];
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

// Interleaved, 3 stages of 2 chunks: virtual stages 0 … 5 on stages 0 1 2 0 1 2. The last stage
// sends chunk 0 on to chunk 1 of the first.
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
          if (!message.exists()) {
            continue;
          }
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

ProgramSpec side_spec(PipelineSide side, int p, int m, SideFeed feed, int fed_max) {
  ProgramSpec spec = uniform_spec({ScheduleKind::Decoupled, p, 1, m});
  spec.side = side;
  spec.feed = feed;
  spec.crossings.assign(static_cast<std::size_t>(p), {.feed = {}, .fed_max = fed_max});
  return spec;
}
Message crossing(const Program& program, const char* task) {
  return program
      .crossings[static_cast<std::size_t>(program.shape.task_id(*task_from_text(task)).value)];
}

Message room(const Program& program, const char* task) {
  return program
      .rooms[static_cast<std::size_t>(program.shape.task_id(*task_from_text(task)).value)];
}

// Two stages, three micro-batches, room for two. The second stage: a forward waits for its
// parameters, its message and, the third one, for room; a recompute for its parameters and its
// feed; a backward of the last stage for its recompute alone.
TEST(ProgramBuilder, TwoSidesOfAStage) {
  const Program forward =
      build_program(side_spec(PipelineSide::Forward, 2, 3, SideFeed::Activations, 2), {1});
  const Program backward =
      build_program(side_spec(PipelineSide::Backward, 2, 3, SideFeed::Activations, 2), {1});
  EXPECT_EQ(forward.num_tasks(), 3);
  EXPECT_EQ(backward.num_tasks(), 6);
  EXPECT_EQ(text_of(forward, received(forward, "F1.0")), "stage 0 F1.0");
  EXPECT_EQ(text_of(forward, sent(forward, "F1.0")), "-");
  EXPECT_EQ(text_of(backward, crossing(forward, "F1.0")), "stage 1 R1.0");
  EXPECT_EQ(text_of(forward, room(backward, "B0.0")), "stage 1 F2.0");
  EXPECT_FALSE(room(backward, "B1.0").exists());
  EXPECT_FALSE(crossing(backward, "B0.0").exists());
  EXPECT_FALSE(crossing(backward, "R0.0").exists());
  EXPECT_EQ(waits(forward, "F1.0"), 2);
  EXPECT_EQ(waits(forward, "F2.0"), 3);
  EXPECT_EQ(waits(backward, "R1.0"), 2);
  EXPECT_EQ(waits(backward, "B1.0"), 1);
  EXPECT_EQ(successors(backward, "R1.0"), std::vector<std::string>{"B1.0"});
  EXPECT_EQ(text_of(backward, sent(backward, "B1.0")), "stage 0 B1.0");
  EXPECT_EQ(text_of(backward, sent(backward, "R1.0")), "-");
}

// The first stage reads the tokens itself when it runs the forward again.
TEST(ProgramBuilder, OnlyActivationsAreFedToTheFirstStage) {
  for (const SideFeed feed : {SideFeed::StageInput, SideFeed::Activations}) {
    const Program forward = build_program(side_spec(PipelineSide::Forward, 2, 3, feed, 0), {0});
    const Program backward = build_program(side_spec(PipelineSide::Backward, 2, 3, feed, 0), {0});
    const bool fed = feed == SideFeed::Activations;
    EXPECT_EQ(crossing(forward, "F0.0").exists(), fed);
    EXPECT_EQ(waits(backward, "R0.0"), fed ? 2 : 1);
  }
}

TEST(ProgramBuilder, BothEndsOfACrossingAgree) {
  for (const SideFeed feed : {SideFeed::StageInput, SideFeed::Activations}) {
    for (int p = 1; p <= 4; ++p) {
      for (int fed_max = 0; fed_max <= 3; ++fed_max) {
        const auto programs = build_programs(
            std::vector<ProgramSpec>{side_spec(PipelineSide::Forward, p, 5, feed, fed_max),
                                     side_spec(PipelineSide::Backward, p, 5, feed, fed_max)});
        int sends = 0;
        int receives = 0;
        for (std::size_t rank = 0; rank < programs.size(); ++rank) {
          const Program& program = programs[rank];
          for (std::int32_t id = 0; id < program.num_tasks(); ++id) {
            receives += program.awaits_crossing({id}) ? 1 : 0;
            if (!program.crosses({id})) continue;
            ++sends;
            const bool is_room = program.makes_room({id});
            EXPECT_NE(is_room, program.feeds({id}));
            const Message& message =
                (is_room ? program.rooms : program.crossings)[static_cast<std::size_t>(id)];
            EXPECT_EQ(message.stage, program.stage);
            const auto stages = static_cast<std::size_t>(p);
            const Program& other = programs[(rank + stages) % (2 * stages)];
            const auto receiver = static_cast<std::size_t>(message.task.value);
            EXPECT_EQ(other.awaited_crossings[receiver].stage, program.stage);
            EXPECT_EQ(other.awaited_crossings[receiver].task.value, id);
          }
        }
        EXPECT_EQ(sends, receives);
        const int fed_stages = feed == SideFeed::Activations ? p : p - 1;
        EXPECT_EQ(sends, 5 * fed_stages + (fed_max == 0 ? 0 : (5 - fed_max) * p));
      }
    }
  }
}

}  // namespace
}  // namespace megatwin::model

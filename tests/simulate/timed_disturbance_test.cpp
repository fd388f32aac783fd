// Disturbances that begin or end within the step: what is under way then goes on at the new rate
// from that instant.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "tests/simulate/job_fixture.h"

namespace megatwin::tests {
namespace {

using model::EventKind;
using model::EventRecord;
using model::Instant;
using sim::SimulationReport;

// Llama 3 8B on eight DGX H100, a replica a machine, or two stages; nothing hides reductions.
model::Job job_of(const std::string& disturbance, const std::string& network = "analytic",
                  int pipeline = 1) {
  return job_from(
      "model: {name: llama-3-8b, sequence_length: 4096}\n"
      "cluster: {nodes: [{type: dgx-h100, count: 8}], fabric: {type: rail-optimized-fat-tree, "
      "routing: spray}}\n"
      "software: {framework: megatron-2021}\n"
      "plan: {tensor: 8, pipeline: " +
      std::to_string(pipeline) + ", data: " + std::to_string(8 / pipeline) +
      ", micro_batch: 1, global_batch: " + std::to_string(64 / pipeline) +
      "}\nnetwork: " + network + "\nseed: 3\n" +
      (disturbance.empty() ? "" : "disturbances: [" + disturbance + "]\n"));
}

SimulationReport run(const model::Job& job) {
  return report_of(job, {.timeline = true, .sensitivities = false});
}
SimulationReport run(const std::string& disturbance, const std::string& network = "analytic",
                     int pipeline = 1) {
  return run(job_of(disturbance, network, pipeline));
}
std::int64_t step_ns(const SimulationReport& report) {
  return model::round_to_instant(report.step_time).ns;
}
std::string at_ms(double ms) { return std::to_string(ms) + " ms"; }

const std::vector<std::string> kKinds{
    "kind: slow-gpu, rank: 13, factor: 1.5",
    "kind: jitter, deviation: 3 %",
    "kind: slow-link, from: n0/nic0, to: rail0/leaf0, factor: 4",
    "kind: flapping-link, from: n0/nic0, to: rail0/leaf0, down: 5 ms, every: 10 ms",
    "kind: pcie-width, at: n0/nic3, lanes: 2",
    "kind: dead-nic, nic: n3/nic2",
    "kind: background, from: n0/gpu0, to: n3/gpu0, rate: 50 GB/s",
};

// A window that holds the whole step is no window.
TEST(TimedDisturbances, OverTheWholeStepAreTheUntimedOnes) {
  for (const std::string& kind : kKinds) {
    for (const int pipeline : {1, 2}) {
      const std::int64_t always = step_ns(run("{" + kind + "}", "analytic", pipeline));
      const std::int64_t timed =
          step_ns(run("{" + kind + ", start: 0 s, until: 1000 s}", "analytic", pipeline));
      EXPECT_NEAR(static_cast<double>(timed), static_cast<double>(always), 100) << kind;
    }
  }
}

// Tensor, context and expert groups that leave a machine, on links that are short already, and
// weights sharded over replicas: as above, but for latencies, which shared transfers pay apart.
TEST(TimedDisturbances, OverTheWholeStepAreTheUntimedOnesOfSharedAdaptersToo) {
  const std::string head =
      "cluster: {nodes: [{type: dgx-h100, count: 4}], fabric: {type: rail-optimized-fat-tree, "
      "routing: spray}}\nseed: 3\nplan: {micro_batch: 1, ";
  const std::vector<std::string> jobs{
      "model: {name: mixtral-8x7b, sequence_length: 4096}\n" + head +
          "tensor: 2, expert: 8, pipeline: 2, data: 8, global_batch: 64, zero: 1, recompute: full, "
          "sequence_parallel: true}\n",
      "model: {name: llama-3-8b, sequence_length: 4096}\n" + head +
          "tensor: 16, pipeline: 2, data: 1, sequence_parallel: true, global_batch: 8}\n",
      "model: {name: llama-3-8b, sequence_length: 4096}\n" + head +
          "tensor: 2, data: 16, zero: 3, sequence_parallel: true, global_batch: 32}\n"};
  for (const std::string& job : jobs) {
    for (const std::size_t kind : {0U, 2U, 4U, 5U, 6U}) {
      const auto step = [&](const std::string& window) {
        return report_of(job_from(job + "disturbances: [{" + kKinds[kind] + window + "}]\n"),
                         {.sensitivities = false});
      };
      const SimulationReport always = step(""), whole = step(", start: 0 s, until: 1000 s");
      EXPECT_NEAR(ratio(whole.step_time / always.step_time), 1, 1e-6) << job << kKinds[kind];
      // Who is late meets others elsewhere than before, which may cost a little less than it did.
      const double part = step(", start: 100 ms, duration: 200 ms").step_time.value;
      EXPECT_LE(part, always.step_time.value * (1 + 1e-3)) << job << kKinds[kind];
      EXPECT_GE(part, always.disturbed->undisturbed_step_time.value * (1 - 1e-3)) << kKinds[kind];
    }
  }
}

// One after the step changes nothing, and says so.
TEST(TimedDisturbances, AfterTheStepChangeNothing) {
  for (const std::string& kind : kKinds) {
    const SimulationReport late = run("{" + kind + ", start: 1000 s}");
    ASSERT_TRUE(late.disturbed);
    EXPECT_NEAR(static_cast<double>(step_ns(late)),
                1e9 * late.disturbed->undisturbed_step_time.value, 100)
        << kind;
    const std::vector<std::string>& chain = late.disturbed->chain;
    EXPECT_TRUE(std::any_of(chain.begin(), chain.end(), [](const std::string& line) {
      return line.find("begins when the step is over") != std::string::npos;
    })) << kind;
  }
}

// What a network is for a nanosecond only, at the start or before the end, is none, also where
// tasks hide a part of the reductions; nor does a link that is short when the step is over delay
// anybody.
TEST(TimedDisturbances, OfANanosecondChangeNothing) {
  const auto step = [](const std::string& entry) {
    model::Job job = job_of(entry, "maxmin");
    job.plan.overlap_grad_reduce = job.plan.overlap_param_gather = true;
    return run(job);
  };
  const std::int64_t plain = step_ns(step(""));
  for (const std::string& kind : kKinds) {
    EXPECT_NEAR(static_cast<double>(step_ns(step("{" + kind + ", until: 1 ns}"))),
                static_cast<double>(plain), 1000)
        << kind;
    const std::string last = at_ms(1e-6 * static_cast<double>(plain - 1));
    EXPECT_NEAR(static_cast<double>(step_ns(step("{" + kind + ", start: " + last + "}"))),
                static_cast<double>(plain), 1000)
        << kind;
    const SimulationReport late = step("{" + kind + ", start: 1000 s}");
    EXPECT_NEAR(static_cast<double>(step_ns(late)), static_cast<double>(plain), 1000) << kind;
    for (const std::string& line : late.disturbed->chain) {
      EXPECT_EQ(line.find("delays its flows"), std::string::npos) << line;
      EXPECT_EQ(line.find("times as long as alone"), std::string::npos) << line;
    }
    EXPECT_EQ(late.links.size(), step("").links.size()) << kind;
  }
}

// The same cable 1.5 times as slow at first and 4 times later: the worse is told, as it is where it
// holds throughout.
TEST(TimedDisturbances, TellOfTheWorstThatALinkDoesToCollectives) {
  const std::string cable = "{kind: slow-link, from: n0/nic0, to: rail0/leaf0, factor: ";
  const auto slowdown = [](const SimulationReport& report) {
    double most = 0;
    for (const sim::LinkLoad& load : report.links) {
      if (load.of_one_collective) most = std::max(most, load.slowdown);
    }
    return most;
  };
  const double always = slowdown(run(cable + "4}", "maxmin"));
  EXPECT_GT(always, 1.5);
  const SimulationReport both =
      run(cable + "1.5, until: 1 s}, " + cable + "4, start: 1 s, until: 1000 s}", "maxmin");
  EXPECT_EQ(slowdown(both), always);
}

// Durations of the tasks of one rank, in the order in which they ran.
std::vector<double> task_times(const SimulationReport& report, int rank) {
  std::vector<double> times;
  for (const EventRecord& event : report.timeline) {
    const bool task = event.kind == EventKind::Forward || event.kind == EventKind::Backward;
    if (event.rank.value == rank && task) {
      times.push_back(static_cast<double>((event.end - event.start).ns));
    }
  }
  return times;
}

// One machine of eight runs its tasks one after the other from 0 on; each gets done at 1/plain of
// itself a nanosecond outside the window and 1/slow inside. The walk goes from edge to edge.
double end_of_tasks(const std::vector<double>& plain, const std::vector<double>& slow, double from,
                    double until) {
  double now = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    for (double left = 1; left > 0;) {
      const bool inside = now >= from && now < until;
      const double edge = now < from ? from : now < until ? until : 1e18;
      const double whole = inside ? slow[i] : plain[i];
      const double step = std::min(left * whole, edge - now);
      left = step < left * whole ? left - step / whole : 0;
      now += step;
    }
  }
  return now;
}

TEST(TimedDisturbances, ASlowGpuStretchesWhatFallsIntoItsWindow) {
  const std::string slow_gpu = "{kind: slow-gpu, rank: 13, factor: 1.5";
  const SimulationReport plain = run(""), always = run(slow_gpu + "}");
  const std::vector<double> fast = task_times(plain, 0);
  // Replica 1 is slow: the second class.
  const std::vector<double> slow = task_times(always, 1);
  ASSERT_EQ(fast.size(), slow.size());
  ASSERT_EQ(fast.size(), 16U);
  const double compute = end_of_tasks(fast, fast, 0, 0);
  for (const auto& [from, until] :
       {std::pair(0.1, 0.4), std::pair(0.333, 0.3334), std::pair(0.0, 0.5), std::pair(0.7, 0.95)}) {
    const double start = std::round(from * compute), end = std::round(until * compute);
    for (const char* network : {"analytic", "maxmin"}) {
      const SimulationReport timed =
          run(slow_gpu + ", start: " + at_ms(start * 1e-6) + ", until: " + at_ms(end * 1e-6) + "}",
              network);
      const double later = end_of_tasks(fast, slow, start, end) - compute;
      EXPECT_GT(later, 0);
      EXPECT_NEAR(static_cast<double>(step_ns(timed) - step_ns(plain)), later, 20) << network;
      EXPECT_EQ(timed.engine, network == std::string("analytic") ? "events" : "dataflow");
    }
  }
}

// Pipelines and jitter of all ranks: two ways to integrate, tasks of the event engine and flows on
// links of their own, lengthen the step alike.
TEST(TimedDisturbances, EventsAndFlowsAgree) {
  for (const int pipeline : {2, 4}) {
    const std::int64_t events = step_ns(run("", "analytic", pipeline));
    const std::int64_t flows = step_ns(run("", "maxmin", pipeline));
    for (const std::string& kind : {kKinds[0], kKinds[1]}) {
      const std::string entry = "{" + kind + ", start: 201 ms, duration: 77 ms}";
      const std::int64_t more = step_ns(run(entry, "analytic", pipeline)) - events;
      EXPECT_GT(more, 1'000'000) << kind;
      EXPECT_NEAR(static_cast<double>(step_ns(run(entry, "maxmin", pipeline)) - flows),
                  static_cast<double>(more), 200)
          << kind;
    }
  }
}

// A policy that decides while the step runs meets the window as it comes: three times as slow for
// the last part of the step costs more than nothing and less than all of it; in the middle, where
// the first stage waits for the others anyway, it costs only waiting.
TEST(TimedDisturbances, DynamicPoliciesMeetThem) {
  const auto step = [](const std::string& window) {
    model::Job job = job_of("{kind: slow-gpu, rank: 13, factor: 3" + window + "}", "analytic", 4);
    job.plan.schedule = model::ScheduleKind::DynamicAdaptive;
    SimulationReport report = run(job);
    EXPECT_EQ(report.engine, "events");
    return report;
  };
  const SimulationReport always = step("");
  const double plain = always.disturbed->undisturbed_step_time.value;
  const double part = step(", start: 400 ms").step_time.value;
  EXPECT_GT(part, plain + 0.05);
  EXPECT_LT(part, always.step_time.value - 0.05);
  const SimulationReport absorbed = step(", start: 150 ms, duration: 50 ms");
  EXPECT_NEAR(absorbed.step_time.value, plain, 1e-9);
  EXPECT_NE(absorbed.disturbed->chain[1].find("its tasks take"), std::string::npos);
}

EventRecord reduction(const SimulationReport& report) {
  EventRecord longest;
  for (const EventRecord& event : report.timeline) {
    if (event.kind == EventKind::GradientReduce &&
        event.end - event.start > longest.end - longest.start) {
      longest = event;
    }
  }
  return longest;
}

// Nothing else sends while gradients are reduced, from R on for d, or d' with the disturbance from
// the start. When it comes x after R, x/d is done, and the rest takes (1 − x/d)·d'. When it goes
// after x, x/d' is done and the rest takes (1 − x/d')·d.
TEST(TimedDisturbances, AReductionUnderWayGoesOnAtTheNewRate) {
  const EventRecord plain = reduction(run("", "maxmin"));
  const double d = static_cast<double>((plain.end - plain.start).ns);
  for (const std::size_t kind : {2U, 3U, 5U, 6U}) {
    const EventRecord always = reduction(run("{" + kKinds[kind] + "}", "maxmin"));
    ASSERT_EQ(always.start, plain.start) << kKinds[kind];
    const double slow = static_cast<double>((always.end - always.start).ns);
    ASSERT_GT(slow, 1.05 * d) << kKinds[kind];
    for (const double part : {0.2, 0.6}) {
      const auto x = static_cast<std::int64_t>(part * d);
      const std::string change = at_ms(1e-6 * static_cast<double>(plain.start.ns + x));
      const EventRecord came = reduction(run("{" + kKinds[kind] + ", start: " + change + "}"));
      const EventRecord went = reduction(run("{" + kKinds[kind] + ", until: " + change + "}"));
      const auto after = static_cast<double>(x);
      // A link's latency of some microseconds is paid before the first byte, whenever that is.
      EXPECT_NEAR(static_cast<double>((came.end - came.start).ns), after + (1 - after / d) * slow,
                  2e-3 * slow)
          << kKinds[kind];
      EXPECT_NEAR(static_cast<double>((went.end - went.start).ns), after + (1 - after / slow) * d,
                  2e-3 * slow)
          << kKinds[kind];
    }
  }
}

// One micro-batch, so that the reduction is a good part of the step.
model::Job short_job(const std::string& disturbance) {
  model::Job job = job_of(disturbance, "maxmin");
  job.plan.global_batch = 8;
  return job;
}
std::string flapping(double start_ns, double down_ns, double period_ns) {
  return "{kind: flapping-link, from: n0/nic0, to: rail0/leaf0, start: " + at_ms(1e-6 * start_ns) +
         ", down: " + at_ms(1e-6 * down_ns) + ", every: " + at_ms(1e-6 * period_ns) + "}";
}

// A ring of which a cable is down stands still, and goes on where it was: by hand, from outage to
// outage. Of a reduction that takes d the first begins after 0.3 d; or they come often, three or
// more in it.
TEST(TimedDisturbances, AFlappingLinkIsDownAndUpInTurn) {
  const SimulationReport plain = run(short_job(""));
  const EventRecord alone = reduction(plain);
  const double d = static_cast<double>((alone.end - alone.start).ns);
  const double step = static_cast<double>(step_ns(plain));
  ASSERT_GT(d, step / 6) << "no room for several outages of a sixteenth of the step";
  struct Case {
    double first, down, period;
  };
  for (const Case& c : {Case{0.3 * d, 0.5 * d, 10 * step}, Case{0.01 * d, 0.02 * d, step / 8},
                        Case{0.1 * d, 0.5 * step / 10, step / 10}, Case{2 * d, d, 10 * step}}) {
    double now = 0, left = d;
    int outages = 0;
    while (true) {
      const double at = c.first + outages * c.period;
      if (now + left <= at) break;
      left -= at - now;
      now = at + c.down;
      ++outages;
    }
    const SimulationReport flaps =
        run(short_job(flapping(static_cast<double>(alone.start.ns) + c.first, c.down, c.period)));
    const EventRecord late = reduction(flaps);
    EXPECT_EQ(late.start, alone.start);
    EXPECT_NEAR(static_cast<double>((late.end - late.start).ns), now + left, 1e-3 * d) << outages;
    EXPECT_NEAR(static_cast<double>(step_ns(flaps)), step + now + left - d, 1e-3 * d) << outages;
  }
}

// By ticks of a microsecond from the start of a reduction on: a part of it is done in each, as much
// as `speed` says for that instant of the step, in reductions a nanosecond.
double ticked_ns(double start_ns, const std::function<double(double now_ns)>& speed) {
  constexpr double kTick = 1000;
  double now = start_ns, left = 1;
  while (left > 0) {
    const double done = kTick * speed(now + kTick / 2);
    if (done >= left) return now + kTick * left / done - start_ns;
    left -= done;
    now += kTick;
  }
  return 0;
}
bool is_down(double now_ns, double start_ns, double down_ns, double period_ns) {
  return now_ns >= start_ns && std::fmod(now_ns - start_ns, period_ns) < down_ns;
}

// Outages of one cable that overlap are one: it is down when either says so. Once half the time and
// briefly, once the same twice, once end to end, and once of either end's name.
TEST(TimedDisturbances, OutagesThatOverlapAreOne) {
  const SimulationReport plain = run(short_job(""));
  const EventRecord alone = reduction(plain);
  const auto start = static_cast<double>(alone.start.ns);
  const double d = static_cast<double>((alone.end - alone.start).ns);
  const double step = static_cast<double>(step_ns(plain));
  struct Flapping {
    double first, down, period;
  };
  struct Case {
    Flapping one, two;
  };
  for (const Case& c : {Case{{0.1 * d, 0.2 * d, 10 * step}, {0.2 * d, 0.3 * d, 10 * step}},
                        Case{{0.1 * d, 0.3 * d, 10 * step}, {0.1 * d, 0.3 * d, 10 * step}},
                        Case{{0.1 * d, 0.2 * d, 10 * step}, {0.3 * d, 0.2 * d, 10 * step}},
                        Case{{0.1 * d, 0.4 * d, 10 * step}, {0.2 * d, 0.1 * d, 10 * step}},
                        Case{{0.1 * d, 0.05 * d, step / 7}, {0.12 * d, 0.1 * d, step / 9}}}) {
    const auto down = [&](const Flapping& f, double now) {
      return is_down(now, start + f.first, f.down, f.period);
    };
    const double by_hand = ticked_ns(
        start, [&](double now) { return down(c.one, now) || down(c.two, now) ? 0.0 : 1 / d; });
    std::string two = flapping(start + c.two.first, c.two.down, c.two.period);
    two.replace(two.find("from: n0/nic0, to: rail0/leaf0"), 30, "from: rail0/leaf0, to: n0/nic0");
    const EventRecord late = reduction(
        run(short_job(flapping(start + c.one.first, c.one.down, c.one.period) + ", " + two)));
    EXPECT_NEAR(static_cast<double>((late.end - late.start).ns), by_hand, 2e-3 * d);
    EXPECT_GT(by_hand, 1.2 * d);
  }
}

// A cable that is down is down, however slow it is otherwise, and what goes by another adapter does
// not wait for it.
TEST(TimedDisturbances, AnOutageBesideAnotherDisturbanceOfItsCable) {
  const EventRecord alone = reduction(run(short_job("")));
  const auto start = static_cast<double>(alone.start.ns);
  const double d = static_cast<double>((alone.end - alone.start).ns);
  const std::string down = flapping(start + 0.3 * d, 0.4 * d, 100 * d);
  const auto length = [&](const std::string& disturbances) {
    const EventRecord event = reduction(run(short_job(disturbances)));
    EXPECT_EQ(event.start, alone.start);
    return static_cast<double>((event.end - event.start).ns);
  };
  const auto is_down_now = [&](double now) {
    return is_down(now, start + 0.3 * d, 0.4 * d, 100 * d);
  };
  const std::string slow = "{kind: slow-link, from: n0/nic0, to: rail0/leaf0, factor: 3}";
  const double slowly = length(slow);
  EXPECT_GT(slowly, 2 * d);
  EXPECT_NEAR(length(slow + ", " + down),
              ticked_ns(start, [&](double now) { return is_down_now(now) ? 0.0 : 1 / slowly; }),
              2e-3 * slowly);
  // Dead for the middle of the outage.
  const auto dead = [&](const std::string& window) {
    return "{kind: dead-nic, nic: n0/nic0" + window + "}";
  };
  const double detour = length(dead(""));
  EXPECT_GT(detour, 1.2 * d);
  const double from = start + 0.4 * d, until = start + 0.6 * d;
  EXPECT_NEAR(length(dead(", start: " + at_ms(1e-6 * from) + ", until: " + at_ms(1e-6 * until)) +
                     ", " + down),
              ticked_ns(start,
                        [&](double now) {
                          if (from <= now && now < until) return 1 / detour;
                          return is_down_now(now) ? 0.0 : 1 / d;
                        }),
              2e-3 * d);
}

bool says(const SimulationReport& report, const std::string& words) {
  const auto& chain = report.disturbed->chain;
  return std::any_of(chain.begin(), chain.end(), [&](const std::string& line) {
    return line.find(words) != std::string::npos;
  });
}

// Of many outages each flow has the part of the time that the cable is up: a reduction of d takes
// d / (1 − down), also where the cable has more room than it needs, whether one disturbance says so
// or two; and outages at the same time are one. Where outages still count, it is off by less than
// one of them.
TEST(TimedDisturbances, FlappingOftenIsItsMeanRate) {
  const SimulationReport plain = run(short_job(""));
  const EventRecord alone = reduction(plain);
  const double step = static_cast<double>(step_ns(plain));
  const double d = static_cast<double>((alone.end - alone.start).ns);
  const auto length = [&](const SimulationReport& report) {
    return static_cast<double>((reduction(report).end - reduction(report).start).ns);
  };
  for (const double down : {0.02, 0.4, 0.7}) {
    // The file's times are whole nanoseconds.
    const double often = std::ceil(step / 1000 / 100) * 100;
    const std::string flaps = flapping(0, down * often, often);
    const SimulationReport mean = run(short_job(flaps));
    // The latencies of its messages, less than a hundredth, do not wait.
    EXPECT_NEAR(length(mean), d / (1 - down), 0.01 * d / (1 - down));
    EXPECT_LE(length(mean), d / (1 - down) + 1);
    EXPECT_TRUE(says(mean, " within the step: its mean rate counts")) << down;
    EXPECT_EQ(length(run(short_job(flaps + ", " + flaps))), length(mean));
    const double seldom = step / 6;
    const SimulationReport counted = run(short_job(flapping(0, down * seldom, seldom)));
    EXPECT_NEAR(length(counted), d / (1 - down), down * seldom);
    EXPECT_GT(std::abs(length(counted) - d / (1 - down)), 1e-4 * d);
    EXPECT_TRUE(says(counted, " times within the step"));
    EXPECT_FALSE(says(counted, "its mean rate counts"));
    for (const sim::LinkLoad& load : counted.links) {
      EXPECT_GT(load.capacity.value, 10e9) << load.link;
      EXPECT_LT(load.slowdown, 1000) << load.link;
    }
  }
  const double often = std::ceil(step / 1000 / 100) * 100;
  const std::string one = flapping(0, 0.3 * often, often);
  const std::string rest = flapping(0.3 * often, 0.2 * often, often);
  const std::string other = flapping(0, 0.5 * often * 1.5, often * 1.5);
  EXPECT_NEAR(length(run(short_job(one + ", " + rest))), d / 0.5, 0.01 * d / 0.5);
  EXPECT_NEAR(length(run(short_job(one + ", " + other))), d / 0.35, 0.01 * d / 0.35);
}

// Under ZeRO 3 an outage that counts holds its task up, of the mean is seen what compute does not
// hide: the two are apart by more than one outage, at most by all of the step.
TEST(TimedDisturbances, OfTrafficInTasksTheMeanIsOffByItsOutages) {
  const auto step = [](double period_ns) {
    const std::string flaps = period_ns > 0 ? flapping(0, 2e6, period_ns) : "";
    model::Job job = job_of(flaps, "maxmin");
    job.plan.tensor = 1;
    job.plan.data = 64;
    job.plan.zero_stage = 3;
    return run(job);
  };
  const SimulationReport plain = step(0);
  const double alone = static_cast<double>(step_ns(plain));
  // Less than a sixteenth of the step, and a little more.
  const SimulationReport mean = step(alone / 16.5), counted = step(alone / 15);
  EXPECT_TRUE(says(mean, "its mean rate counts"));
  EXPECT_FALSE(says(counted, "its mean rate counts"));
  EXPECT_GE(static_cast<double>(step_ns(mean)), alone);
  const auto apart = static_cast<double>(step_ns(counted) - step_ns(mean));
  EXPECT_GT(apart, 2e6);
  EXPECT_LT(apart, 17 * 2e6);
}

// What is said of the traffic of a step in which a cable is down for a while is what it had on
// average, not the years that it would take with the cable down.
TEST(TimedDisturbances, OutagesDoNotCountAsIfTheyLasted) {
  const SimulationReport plain = run(short_job(""));
  const double step = static_cast<double>(step_ns(plain));
  const SimulationReport report = run(short_job(flapping(0, step / 20, step / 10)));
  EXPECT_TRUE(says(report, "takes on average over the step"));
  EXPECT_FALSE(says(report, " s instead of"));
  EXPECT_FALSE(says(report, " h instead of"));
}

TEST(TimedDisturbances, ACableThatIsNeverUpIsRefused) {
  const double ms = 1e6;
  const model::Job job =
      short_job(flapping(0, 5 * ms, 10 * ms) + ", " + flapping(5 * ms, 6 * ms, 10 * ms));
  const auto answer = sim::simulate(job, {.sensitivities = false});
  const auto* refusal = std::get_if<sim::PlanRefusal>(&answer);
  ASSERT_NE(refusal, nullptr);
  EXPECT_NE(refusal->reasons.front().find("together the cable is never up"), std::string::npos)
      << refusal->reasons.front();
}

// Under ZeRO 3 the traffic of a link is inside the tasks. What waited for it is traffic, not
// compute: kernels take as long as without, whenever the window is and however slow the link, but
// for what traffic that hides longer slows them.
TEST(TimedDisturbances, OfALinkLeaveKernelsAlone) {
  model::Job job = job_of("", "maxmin");
  job.plan.tensor = 1;
  job.plan.data = 64;
  job.plan.zero_stage = 3;
  const model::Seconds kernels = run(job).breakdown.compute;
  for (const char* window : {"factor: 1000, until: 1 ns", "factor: 4, until: 200 ms",
                             "factor: 10, start: 100 ms, duration: 500 ms"}) {
    SCOPED_TRACE(window);
    model::Job disturbed = job_of(
        "{kind: slow-link, from: n0/nic0, to: rail0/leaf0, " + std::string(window) + "}", "maxmin");
    disturbed.plan = job.plan;
    const SimulationReport report = run(disturbed);
    EXPECT_NEAR(model::ratio(report.breakdown.compute / kernels), 1, 0.04);
    EXPECT_LT(report.power_per_gpu.value, 700);
  }
}

// SimGrid and our own solver, on links, ways and tasks that change; skipped where it was not built.
TEST(TimedDisturbances, AreTheSameBySimgrid) {
  const EventRecord plain = reduction(run("", "maxmin"));
  const std::int64_t middle_ns = (plain.start.ns + plain.end.ns) / 2;
  const std::string change = at_ms(1e-6 * static_cast<double>(middle_ns));
  for (const std::size_t kind : {0U, 2U, 5U, 6U}) {
    const std::string entry =
        "{" + kKinds[kind] + ", start: " + (kind == 0 ? "20 ms" : change) + ", duration: 3 ms}";
    const auto answer = sim::simulate(job_of(entry, "simgrid"), {.sensitivities = false});
    if (const auto* refusal = std::get_if<sim::PlanRefusal>(&answer)) {
      ASSERT_EQ(refusal->code, "no_network");
      GTEST_SKIP() << refusal->reasons.front();
    }
    const SimulationReport ours = run(entry, "maxmin");
    EXPECT_NEAR(std::get<SimulationReport>(answer).step_time.value / ours.step_time.value, 1, 1e-8);
    EXPECT_GT(ours.step_time, ours.disturbed->undisturbed_step_time) << kKinds[kind];
  }
}

// A reduction at a quarter of the rate for a part of the step takes as long as neither of the two.
TEST(TimedDisturbances, SayWhatIsAMeanOverTheStep) {
  const std::string link = "{kind: slow-link, from: n0/nic0, to: rail0/leaf0, factor: 4";
  const auto says = [](const SimulationReport& report, const std::string& words) {
    const auto& chain = report.disturbed->chain;
    return std::any_of(chain.begin(), chain.end(), [&](const std::string& line) {
      return line.find(words) != std::string::npos;
    });
  };
  const std::string always = "hidden or not, takes ", mean = always + "on average over the step ";
  const SimulationReport timed = run(link + ", start: 1 ms}");
  EXPECT_TRUE(says(timed, mean));
  const SimulationReport untimed = run(link + "}");
  EXPECT_TRUE(says(untimed, always));
  EXPECT_FALSE(says(untimed, mean));
}

// A cable is slow at first, and then its adapter is dead: there was no cable to be slow. The report
// says whose adapter takes over, the nearest: n3/nic0 of its socket, not n3/nic4 of the other.
TEST(TimedDisturbances, ASlowCableMayLoseItsAdapterLater) {
  const SimulationReport report =
      run("{kind: slow-link, from: n3/nic3, to: rail3/leaf0, factor: 4}, {kind: dead-nic, nic: "
          "n3/nic3, start: 100 ms}");
  EXPECT_GT(report.step_time, report.disturbed->undisturbed_step_time);
  const auto& chain = report.disturbed->chain;
  EXPECT_NE(std::find(chain.begin(), chain.end(),
                      "n3/nic3 is dead from 100 ms on: n3/gpu3 uses n3/nic0 on its socket"),
            chain.end());
}

// The window stands with the cause and in the chain.
TEST(TimedDisturbances, AreNamedWithTheirWindow) {
  const SimulationReport report = run("{" + kKinds[0] + ", start: 4 ms, duration: 6 ms}");
  ASSERT_TRUE(report.disturbed);
  EXPECT_EQ(report.disturbed->causes.front(), "slow-gpu n1/gpu5 × 1.5 from 4 ms until 10 ms");
  ASSERT_FALSE(report.disturbed->chain.empty());
  EXPECT_NE(report.disturbed->chain.front().find("slow from 4 ms until 10 ms"), std::string::npos);
}

// Tensor groups of two machines and a link that comes and goes: no part of the step is less than
// nothing or more than all, kernels take what they take without, and links alone move traffic.
TEST(TimedDisturbances, NoPartOfAStepIsLessThanNothing) {
  const auto step = [](const std::string& disturbance) {
    return report_of(
        job_from("model: {name: llama-3-8b, num_layers: 8, sequence_length: 4096}\n"
                 "cluster: {nodes: [{type: dgx-h100, count: 2}], fabric: {type: "
                 "rail-optimized-fat-tree}}\n"
                 "plan: {tensor: 16, micro_batch: 1, global_batch: 8, zero: 1}\n"
                 "network: maxmin\n" +
                 (disturbance.empty() ? "" : "disturbances: [{" + disturbance + "}]\n")),
        {.sensitivities = false});
  };
  const SimulationReport plain = step("");
  for (const char* disturbance :
       {"kind: flapping-link, from: n0/nic0, to: rail0/leaf0, down: 50 ms, every: 100 ms",
        "kind: slow-link, from: n0/nic0, to: rail0/leaf0, factor: 4, start: 10 ms",
        "kind: slow-link, from: n0/gpu0, to: n0/nvswitch0, factor: 4, until: 20 ms",
        "kind: dead-nic, nic: n0/nic0, start: 10 ms"}) {
    SCOPED_TRACE(disturbance);
    const SimulationReport report = step(disturbance);
    const sim::StepBreakdown& parts = report.breakdown;
    for (const model::Seconds part :
         {parts.compute, parts.exposed_tp, parts.exposed_dp, parts.exposed_cp, parts.exposed_pp,
          parts.exposed_ep, parts.bubble}) {
      EXPECT_GE(part.value, -1e-9);
      EXPECT_LE(part, report.step_time);
    }
    EXPECT_NEAR(ratio(parts.compute / plain.breakdown.compute), 1, 0.1);
    EXPECT_GE(parts.exposed_tp, 0.9 * plain.breakdown.exposed_tp);
  }
}

}  // namespace
}  // namespace megatwin::tests

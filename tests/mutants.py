#!/usr/bin/env python3
"""Changes single lines of policies/, exec/ and the network one at a time and shows that the tests notice.

    tests/mutants.py [build/release [TEXT...]]

With TEXTs only the changes whose file or line has one of them. Each change is compiled with the
build's own command, in its unity file where there is one, and linked in front of the libraries of
the build, so that nothing in the tree or the build is touched. A mutant is caught when one of the
tests of its folder fails, crashes or does not end: of policies/ policies_unit_test (which replays
recorded runs of the host world) and policies_property_test, of exec/ exec_unit_test,
exec_parity_test and exec_decision_test, of the network in model/ network_unit_test and
costs_unit_test and, as in sim/, simulate_unit_test. Prints one row a mutant; exit code 1 when one survives or
no longer applies.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

# (file, the line's text, what it becomes): one line each, all kinds of mistakes that compile.
MUTANTS = [
    ("policies/executor.cpp", "  --in_flight_;", "  ;"),
    ("policies/executor.cpp", "    if (--free < 0) {", "    if (--free <= 0) {"),
    ("policies/executor.cpp", "  ++free_slots_[channel];", "  ;"),
    ("policies/executor.cpp", "  while (in_flight_ < options_.issue_depth && position_ < order.size() &&",
     "  while (in_flight_ <= options_.issue_depth && position_ < order.size() &&"),
    ("policies/executor.cpp", "      while (in_flight_ < options_.issue_depth && ask_policy()) {",
     "      while (in_flight_ < 1 && ask_policy()) {"),
    ("policies/executor.cpp", "  return chunks_[chunk].gradients_issued == program_->shape.place_of(task.micro_batch);",
     "  return true;"),
    ("policies/executor.cpp",
     "  average = average_codes_[index] == 0 ? ns : average + (ns - average) / kAverageLength;",
     "  average = ns;"),
    ("policies/executor.cpp", "        memory_used_ += memory.weight_gradient_input;", "        ;"),
    ("policies/executor.cpp", "  return memory_used_ + program_->chunk_memory[chunk].activation <= options_.memory_limit;",
     "  return memory_used_ <= options_.memory_limit;"),
    ("policies/adaptive_pipeline.cpp",
     "    if (still_to_come(other) - begun > free) {",
     "    if (still_to_come(other) - begun > free + 1) {"),
    ("policies/adaptive_pipeline.cpp",
     "  const std::int32_t over = first == 0 ? micro_batches_ % size : 0;",
     "  const std::int32_t over = 0;"),
    ("policies/adaptive_pipeline.cpp",
     "  room_ = one_at_a_time_ ? chunks_ : most;",
     "  room_ = one_at_a_time_ ? chunks_ : most + 1;"),
    ("policies/adaptive_pipeline.cpp",
     "  if (observation.in_flight > 0) {",
     "  if (observation.in_flight > 1) {"),
    ("policies/adaptive_pipeline.cpp",
     "  const bool memory_is_free = 2 * held_ <= room_;",
     "  const bool memory_is_free = 2 * held_ < room_;"),
    ("policies/adaptive_pipeline.cpp",
     "    before += still_to_come(other, chunk + (other < micro_batch ? 1 : 0));",
     "    before += still_to_come(other, chunk);"),
    ("policies/adaptive_pipeline.cpp",
     "    if (message.exists() && observation.free_slots[message.channel] < 0) return true;",
     "    if (message.exists() && observation.free_slots[message.channel] <= 0) return true;"),
    ("policies/adaptive_pipeline.cpp",
     "  pressure_ = std::clamp(pressure_ + (messages_wait_ ? 1 : -1), 0, kPressureMax);",
     "  pressure_ = std::clamp(pressure_ + (messages_wait_ ? 1 : 0), 0, kPressureMax);"),
    ("policies/adaptive_pipeline.cpp",
     "  if (pressure_ >= kLinksFull) traversal_ = Traversal::Depth;",
     "  if (pressure_ > kLinksFull) traversal_ = Traversal::Depth;"),
    ("policies/adaptive_pipeline.cpp",
     "  if (pressure_ <= kLinksFree) traversal_ = Traversal::Breadth;",
     "  if (pressure_ < kLinksFull) traversal_ = Traversal::Breadth;"),
    ("policies/adaptive_pipeline.cpp",
     "  const bool forwards_turn = is_turn_of_forwards() && !messages_wait_;",
     "  const bool forwards_turn = is_turn_of_forwards();"),
    ("policies/adaptive_pipeline.cpp",
     "  return ahead_ <= forwards_ahead();",
     "  return ahead_ < forwards_ahead();"),
    ("policies/adaptive_pipeline.cpp",
     "  if (!overtakes_in_slots_ || (enters_pipeline(forward) && messages_wait_)) {",
     "  if (!overtakes_in_slots_) {"),
    ("policies/adaptive_pipeline.cpp",
     "  return held_ + overtaken_by(last) + sizes_.back() <= room_;",
     "  return held_ + overtaken_by(last) <= room_;"),
    ("policies/adaptive_pipeline.cpp",
     "  const std::int32_t over = micro_batches_ % width;",
     "  const std::int32_t over = 0;"),
    ("policies/adaptive_pipeline.cpp",
     "  if (one_slot && is_order_of_interleaved()) room_ = depth_room_;",
     "  ;"),
    ("policies/adaptive_pipeline.cpp",
     "  return chunks_ == 1 && memory_is_bounded() && ahead_ >= ahead_max_;",
     "  return chunks_ == 1 && memory_is_bounded() && ahead_ > ahead_max_;"),
    ("policies/adaptive_pipeline.cpp",
     "  return first * chunks_ + forward.micro_batch.value - first > gradients_ + forwards_ahead();",
     "  return first * chunks_ + forward.micro_batch.value - first >= gradients_ + forwards_ahead();"),
    ("policies/adaptive_pipeline.cpp",
     "    if (progress(other).forwards < before) {",
     "    if (progress(other).forwards < before - 1) {"),
    ("policies/adaptive_pipeline.cpp",
     "           (forward.micro_batch.value == oldest_ || held_ + size_of(forward.chunk.value) <= room_);",
     "           held_ + size_of(forward.chunk.value) <= room_;"),
    ("policies/adaptive_pipeline.cpp",
     "      return forward.chunk.value > 0 || entered_ < entered_max_;",
     "      return forward.chunk.value > 0 || entered_ <= entered_max_;"),
    ("policies/adaptive_pipeline.cpp",
     "             held_ + size_of(forward.chunk.value) <= depth_room_;",
     "             held_ + size_of(forward.chunk.value) < depth_room_;"),
    ("policies/adaptive_pipeline.cpp",
     "  broad_ = std::min(2 * stages_, micro_batches_);",
     "  broad_ = std::min(stages_, micro_batches_);"),
    ("policies/adaptive_pipeline.cpp",
     "    broad_ = std::clamp(widest_block(), deep_, broad_);",
     "    broad_ = deep_;"),
    ("policies/block_width.cpp",
     "  const std::int64_t ahead = (std::ssize(sizes) - 1) * width + lead;",
     "  const std::int64_t ahead = (std::ssize(sizes) - 1) * width - lead;"),
    ("policies/block_width.cpp",
     "    const std::int32_t lead = std::max(width - 1 - 2 * rank.stage, 0);",
     "    const std::int32_t lead = std::max(width - 1 - rank.stage, 0);"),
    ("policies/block_width.cpp",
     "    return sizes[0] * std::min(ahead + 1, memory.micro_batches * std::ssize(sizes));",
     "    return sizes[0] * (ahead + 1);"),
    ("policies/equal_memory.cpp",
     "        std::min(memory.micro_batches, std::max(1, rank_memory.whole_micro_batches()));",
     "        std::max(1, rank_memory.whole_micro_batches());"),
    ("policies/dynamic_pipeline.cpp", "    return forward_has_its_turn ? 0 : 2;",
     "    return forward_has_its_turn ? 2 : 0;"),
    ("policies/dynamic_pipeline.cpp", "  const int held = entered_ * chunks - finished_;",
     "  const int held = entered_ * chunks;"),
    ("policies/dynamic_pipeline.cpp", "    ++finished_;", "    ;"),
    ("policies/one_forward_one_backward.cpp",
     "  return with_warm_up(shape, shape.micro_batches, shape.pipeline - 1 - stage.value);",
     "  return with_warm_up(shape, shape.micro_batches, shape.pipeline - stage.value);"),
    ("policies/forward_backward_decoupling.cpp",
     "    order.push_back({shape.micro_batches + n});",
     "    order.push_back({2 * shape.micro_batches - 1 - n});"),
    ("policies/gpipe.cpp", "  for (std::int32_t chunk = shape.model_chunks - 1; chunk >= 0; --chunk) {",
     "  for (std::int32_t chunk = 0; chunk < shape.model_chunks; ++chunk) {"),
    ("policies/zero_bubble.cpp", "    if (i >= stage.value) {", "    if (i > stage.value) {"),
    ("policies/zero_bubble.cpp", "  for (int n = 0; n < 2 * (p - i) - 1; ++n) {",
     "  for (int n = 0; n < 2 * (p - i); ++n) {"),
    ("policies/state_hash.cpp", "  hash.add_bytes_of(static_cast<std::uint64_t>(observation.in_flight));", "  ;"),
    ("policies/collective_coordinator.cpp", "    if (group.running || group.complete.empty()) {",
     "    if (group.complete.empty()) {"),
    ("policies/collective_coordinator.cpp", "  if (std::find(bits.begin(), bits.end(), false) == bits.end()) {",
     "  if (std::count(bits.begin(), bits.end(), true) > 0) {"),
    ("policies/executor.cpp", "      return tasks_done_ == 0 && in_flight_ == 0;", "      return true;"),
    ("policies/replay.cpp", "  while (position_ < decisions_.size() &&",
     "  if (position_ < decisions_.size() &&"),
    ("policies/user_policy.cpp",
     "                 [](std::int32_t free) { return std::max(free, 0); });",
     "                 [](std::int32_t free) { return free; });"),
    ("policies/forward_backward_decoupling.cpp",
     "  const std::int64_t half = (pipelines.micro_batches + 1) / 2;",
     "  const std::int64_t half = pipelines.micro_batches / 2;"),
    ("policies/zero_bubble.cpp", "  const int m = std::max(shape.micro_batches, 2 * p - 1);",
     "  const int m = std::max(shape.micro_batches, 2 * p);"),
    ("exec/rank_model.cpp", "  if (task.kind == TaskKind::Backward) {", "  if (false) {"),
    ("exec/rank_model.cpp", "           .step = arguments.step + 1,",
     "           .step = arguments.step + 2,"),
    ("exec/model_ends.cpp",
     "      dpositions[static_cast<std::size_t>(position * shape.hidden + i)] +=",
     "      if (i + 1 < shape.hidden) dpositions[static_cast<std::size_t>(position * shape.hidden + i)] +="),
    ("exec/host_backend.cpp",
     "    scale = std::min(1.0, setup_.job.gradient_norm_max / (norm + 1e-6));",
     "    scale = std::min(1.0, setup_.job.gradient_norm_max / (2 * norm + 1e-6));"),
    ("exec/host_backend.cpp", "  if (const auto name = setup_.model.gradient_not_finite()) {",
     "  if (const auto name = std::optional<std::string>()) {"),
    ("exec/host_backend.cpp", "  if (outcome.loss && !std::isfinite(*outcome.loss)) {",
     "  if (false) {"),
    ("exec/outbox.cpp", "  own.credits -= limited_ ? 1 : 0;", "  own.credits -= 0;"),
    ("exec/slot_pool.cpp", "  if (bound.live_activations > 0) live = std::min(live, bound.live_activations);",
     "  if (bound.live_activations > 0) live = std::min(live, bound.live_activations + 1);"),
    ("exec/expert_layer.cpp",
     "                        static_cast<double>(shape.experts.count) /",
     "                        1.0 /"),
    ("exec/expert_layer.cpp",
     "      if (++taken[as_index(static_cast<std::int64_t>(expert))] > capacity) {",
     "      if (++taken[as_index(static_cast<std::int64_t>(expert))] >= capacity) {"),
    ("exec/model_shape.cpp",
     "  return static_cast<std::int64_t>(std::ceil(experts.settings.capacity_factor * share));",
     "  return static_cast<std::int64_t>(experts.settings.capacity_factor * share) + 1;"),
    ("exec/host_rank.cpp",
     "  return sum / static_cast<double>(plan.num_micro_batches() * plan.data);",
     "  return sum / static_cast<double>(plan.num_micro_batches() * plan.data + 0.001);"),
    ("model/collective_cost.cpp", "  communicator.nodes = topology.nodes;",
     "  communicator.nodes = std::min(topology.nodes, 2);"),
    ("model/rank_layout.cpp",
     "    for (int first = std::max(0, edge - reach); first < edge; ++first) {",
     "    for (int first = std::max(0, edge - reach + 1); first < edge; ++first) {"),
    ("model/topology/fabric_hops.cpp", "    routers += std::min(apart, size - apart);",
     "    routers += apart;"),
    ("model/topology/fabric_hops.cpp",
     "      levels_.push_back({.machines = at_most_int(std::int64_t{leaf} * blocks), .hops = 5});",
     "      levels_.push_back({.machines = at_most_int(std::int64_t{leaf} * pod), .hops = 5});"),
    ("model/topology/router.cpp",
     "    if (far > 0 && (least == 0 || far < least)) nearest = other, least = far;",
     "    if (far > 0 && least == 0) nearest = other, least = far;"),
    ("sim/group_contention.cpp",
     "      units.push_back(unit_of(job_.plan, at.data, at.pipeline));",
     "      units.push_back(unit_of(job_.plan, 0, at.pipeline));"),
    ("sim/group_contention.cpp",
     "      if (job.plan.zero_stage >= 2) round.add_other_jobs();", "      ;"),
    ("sim/delayed_program.cpp", "    cost.chunks[c].backward.ns -= backward;", "    ;"),
    ("sim/flapping.cpp",
     "    phases.outages.emplace_back(down, std::min(over, later(down, flapping.down)));",
     "    phases.outages.emplace_back(down, std::min(over, later(down, 0.9 * flapping.down)));"),
    ("sim/flapping.cpp",
     "      apart.back().second = std::max(apart.back().second, window.second);",
     "      apart.back().second = window.second;"),
    ("model/link_share.cpp",
     "  return alone.time + (sent / share.left - sent / share.alone);",
     "  return alone.time + sent / share.left;"),
    ("model/link_share.cpp", "    if (in_switches || (tree && topology.nodes == 2)) return 1;",
     "    if (tree && topology.nodes == 2) return 1;"),
    ("sim/group_contention.cpp",
     "      if (slower > 1 + kSame) by_group[group] = std::max(by_group[group], slower * denser_[group]);",
     "      if (slower > 1 + kSame) by_group[group] = std::max(by_group[group], slower);"),
    ("model/rank_layout.cpp", "  const std::int64_t period = std::lcm(block, std::int64_t{gpus_per_node});",
     "  const std::int64_t period = block;"),
    ("sim/step_flows.cpp", "          last = task.sent[kind];", "          ;"),
]
# By the first folder of a file: the tests that must notice.
NETWORK = ["network/network_unit_test", "costs/costs_unit_test", "simulate/simulate_unit_test"]
TESTS = {"policies": ["policies/policies_unit_test", "policies/policies_property_test"],
         "exec": ["exec/exec_unit_test", "exec/exec_parity_test", "exec/exec_decision_test"],
         "model": NETWORK, "sim": NETWORK[2:]}


class Build:
    def __init__(self, root, path):
        self.root = root
        self.path = path
        with open(os.path.join(path, "compile_commands.json"), encoding="utf-8") as file:
            self.entries = {entry["file"]: entry for entry in json.load(file)}
        # Which unity file has a source, as CMake writes them.
        self.unity = {}
        for name in self.entries:
            if "/Unity/" in name:
                with open(name, encoding="utf-8") as file:
                    for source in re.findall(r'#include "(.*?)"', file.read()):
                        self.unity[source] = name
        self.links = {f"tests/{test}": self.link_command(f"tests/{test}")
                      for tests in TESTS.values() for test in tests}

    def link_command(self, target):
        lines = subprocess.run(["ninja", "-C", self.path, "-t", "commands", target],
                               check=True, capture_output=True, text=True).stdout.splitlines()
        command = lines[-1]
        start = command.index("&&") + 2 if command.startswith(": &&") else 0
        return command[start:].rsplit("&&", 1)[0].strip()

    def compile(self, source, text, scratch):
        """Gives the object of the file that has `text` instead of what is in `source`."""
        mutated = os.path.join(scratch, os.path.basename(source))
        with open(mutated, "w", encoding="utf-8") as file:
            file.write(text)
        compiled = self.unity.get(source, source)
        if compiled not in self.entries:
            raise SystemExit(f"{source} is not in {self.path}/compile_commands.json")
        if compiled != source:
            with open(compiled, encoding="utf-8") as file:
                unity = file.read().replace(f'"{source}"', f'"{mutated}"')
            mutated = os.path.join(scratch, "unity.cxx")
            with open(mutated, "w", encoding="utf-8") as file:
                file.write(unity)
        entry = self.entries[compiled]
        command = shlex.split(entry["command"])
        obj = os.path.join(scratch, "mutant.o")
        command[command.index("-o") + 1] = obj
        command = [mutated if part == compiled else part for part in command] + ["-w"]
        return obj, subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)

    def run(self, target, obj, scratch):
        """What the test says with the object in front: empty when it passes."""
        name = os.path.basename(target)
        program = os.path.join(scratch, name)
        link = self.links[target].replace(f"-o {target}", f"-o {program} {obj}", 1)
        subprocess.run(link, cwd=self.path, shell=True, check=True)
        try:
            ended = subprocess.run([program, "--gtest_brief=1"], cwd=self.root,
                                   capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return f"{name} does not end"
        if ended.returncode < 0:
            return f"{name} aborts"
        if ended.returncode == 0:
            return ""
        failed = [line.split("]")[1].split("(")[0].strip() for line in ended.stdout.splitlines()
                  if line.startswith("[  FAILED  ]")]
        return failed[0].split(",")[0] if failed else name


def run_mutant(build, mutant):
    name, old, new = mutant
    source = os.path.join(build.root, name)
    with open(source, encoding="utf-8") as file:
        text = file.read()
    if text.count(old + "\n") != 1:
        return "does not apply"
    with tempfile.TemporaryDirectory() as scratch:
        obj, built = build.compile(source, text.replace(old + "\n", new + "\n"), scratch)
        if built.returncode != 0:
            return "does not compile: " + built.stderr.splitlines()[0]
        folder = name.split("/")[0]
        for test in TESTS[folder]:
            noticed = build.run(f"tests/{test}", obj, scratch)
            if noticed:
                return "caught: " + noticed
    return "SURVIVES"


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(root, "build/release")
    build = Build(root, os.path.abspath(path))
    texts = sys.argv[2:] or [""]
    chosen = [mutant for mutant in MUTANTS
              if any(text in mutant[0] or text in mutant[1] for text in texts)]
    bad = 0
    with ThreadPoolExecutor(2) as pool:
        verdicts = pool.map(lambda mutant: run_mutant(build, mutant), chosen)
        for mutant, verdict in zip(chosen, verdicts):
            bad += not verdict.startswith("caught")
            number = MUTANTS.index(mutant) + 1
            print(f"{number:2} {mutant[0]}: `{mutant[1].strip()}` -> `{mutant[2].strip()}`: "
                  f"{verdict}", flush=True)
    print(f"{len(chosen) - bad} of {len(chosen)} caught")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Changes single lines of policies/ and exec/ one at a time and shows that the tests notice.

    tests/mutants.py [build/release [TEXT...]]

With TEXTs only the changes whose file or line has one of them. Each change is compiled with the
build's own command, in its unity file where there is one, and linked in front of the libraries of
the build, so that nothing in the tree or the build is touched. A mutant is caught when one of the
tests of its folder fails, crashes or does not end: of policies/ policies_unit_test (which replays
recorded runs of the host world) and policies_property_test, of exec/ exec_unit_test,
exec_parity_test and exec_decision_test. Prints one row a mutant; exit code 1 when one survives or
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
    ("policies/executor.cpp", "      memory_used_ += memory.weight_gradient_input;", "      ;"),
    ("policies/executor.cpp", "  return memory_used_ + program_->chunk_memory[chunk].activation <= options_.memory_limit;",
     "  return memory_used_ <= options_.memory_limit;"),
    ("policies/adaptive_pipeline.cpp", "    return !enters || (entered_ + 1) * held_while_passing_ <= chunks_ * room_;",
     "    return !enters || entered_ * held_while_passing_ <= chunks_ * room_;"),
    ("policies/adaptive_pipeline.cpp", "    if (still_to_come(other) - begun > free) {",
     "    if (still_to_come(other) - begun > free + 1) {"),
    ("policies/adaptive_pipeline.cpp", "  const std::int32_t over = first == 0 ? micro_batches_ % size : 0;",
     "  const std::int32_t over = 0;"),
    ("policies/adaptive_pipeline.cpp", "    held_while_passing_ += micro_batch_size_;",
     "    held_while_passing_ += size;"),
    ("policies/adaptive_pipeline.cpp", "  const std::int64_t ahead = std::int64_t{chunks_ - 1} * size + lead;",
     "  const std::int64_t ahead = std::int64_t{chunks_ - 1} * size - lead;"),
    ("policies/adaptive_pipeline.cpp", "  room_ = all_fit ? most : chunks_;",
     "  room_ = all_fit ? most + 1 : chunks_;"),
    ("policies/adaptive_pipeline.cpp", "  if (observation.in_flight > 0) {", "  if (observation.in_flight > 1) {"),
    ("policies/adaptive_pipeline.cpp", "  const bool memory_is_free = 2 * held_ <= room_;",
     "  const bool memory_is_free = 2 * held_ < room_;"),
    ("policies/adaptive_pipeline.cpp", "    before += still_to_come(other, chunk + (other < micro_batch ? 1 : 0));",
     "    before += still_to_come(other, chunk);"),
    ("policies/adaptive_pipeline.cpp",
     "    if (message.exists() && observation.free_slots[message.channel] < 0) return true;",
     "    if (message.exists() && observation.free_slots[message.channel] <= 0) return true;"),
    ("policies/adaptive_pipeline.cpp",
     "  pressure_ = std::clamp(pressure_ + (messages_wait_ ? 1 : -1), 0, kPressureMax);",
     "  pressure_ = std::clamp(pressure_ + (messages_wait_ ? 1 : 0), 0, kPressureMax);"),
    ("policies/adaptive_pipeline.cpp", "  if (pressure_ >= kLinksFull) traversal_ = Traversal::Depth;",
     "  if (pressure_ > kLinksFull) traversal_ = Traversal::Depth;"),
    ("policies/adaptive_pipeline.cpp", "  if (pressure_ <= kLinksFree) traversal_ = Traversal::Breadth;",
     "  if (pressure_ < kLinksFull) traversal_ = Traversal::Breadth;"),
    ("policies/adaptive_pipeline.cpp", "  const bool forwards_turn = after_gradient_ && !messages_wait_;",
     "  const bool forwards_turn = after_gradient_;"),
    ("policies/adaptive_pipeline.cpp", "  if (enters_pipeline(forward) && messages_wait_) {", "  if (false) {"),
    ("policies/adaptive_pipeline.cpp", "  return held_ + overtaken_by(last) + sizes_.back() <= room;",
     "  return held_ + overtaken_by(last) <= room;"),
    ("policies/adaptive_pipeline.cpp", "  const std::int32_t over = micro_batches_ % width;",
     "  const std::int32_t over = 0;"),
    ("policies/adaptive_pipeline.cpp", "  if (slots == 1) room_ = depth_room_;", "  ;"),
    ("policies/equal_memory.cpp", "      memory.sizes[chunk] = std::max(memory.sizes[chunk], size);",
     "      memory.sizes[chunk] = size;"),
    ("policies/dynamic_pipeline.cpp", "    return forward_has_its_turn ? 0 : 2;",
     "    return forward_has_its_turn ? 2 : 0;"),
    ("policies/dynamic_pipeline.cpp", "  const int held = entered_ * chunks - finished_;",
     "  const int held = entered_ * chunks;"),
    ("policies/dynamic_pipeline.cpp", "    ++finished_;", "    ;"),
    ("policies/one_forward_one_backward.cpp",
     "  return with_warm_up(shape, shape.micro_batches, shape.pipeline - 1 - stage.value);",
     "  return with_warm_up(shape, shape.micro_batches, shape.pipeline - stage.value);"),
    ("policies/forward_backward_decoupling.cpp", "    for (int phase = 0; phase < shape.phases(); ++phase) {",
     "    for (int phase = shape.phases() - 1; phase >= 0; --phase) {"),
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
    ("policies/adaptive_pipeline.cpp",
     "  for (std::int64_t& size : sizes_) size = std::max<std::int64_t>(size, 1);", "  ;"),
    ("policies/adaptive_pipeline.cpp", "             (entered_ + 1) * micro_batch_size_ <= room_;",
     "             (entered_ + 1) * micro_batch_size_ < room_;"),
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
]
TESTS = {"policies": ["policies_unit_test", "policies_property_test"],
         "exec": ["exec_unit_test", "exec_parity_test", "exec_decision_test"]}


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
        self.links = {f"tests/{folder}/{test}": self.link_command(f"tests/{folder}/{test}")
                      for folder, tests in TESTS.items() for test in tests}

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
            noticed = build.run(f"tests/{folder}/{test}", obj, scratch)
            if noticed:
                return "caught: " + noticed
    return "SURVIVES"


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
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

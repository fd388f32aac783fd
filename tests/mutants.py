#!/usr/bin/env python3
"""Changes single lines of policies/ one at a time and shows that the tests notice.

    tests/policies/mutants.py [build/release]

Each change is compiled alone and linked in front of the libraries of the build, so that nothing in
the tree is touched. A mutant is caught when policies_unit_test (which replays recorded runs of the
host world) or policies_property_test fails, crashes or does not end. Prints one row a mutant; exit
code 1 when one survives or no longer applies.
"""
import json
import os
import shlex
import subprocess
import sys
import tempfile

# (file, the line's text, what it becomes): one line each, all kinds of mistakes that compile.
MUTANTS = [
    ("executor.cpp", "  --in_flight_;", "  ;"),
    ("executor.cpp", "    if (--free < 0) {", "    if (--free <= 0) {"),
    ("executor.cpp", "  ++free_slots_[channel];", "  ;"),
    ("executor.cpp", "  while (in_flight_ < options_.issue_depth && position_ < order.size() &&",
     "  while (in_flight_ <= options_.issue_depth && position_ < order.size() &&"),
    ("executor.cpp", "      while (in_flight_ < options_.issue_depth && ask_policy()) {",
     "      while (in_flight_ < 1 && ask_policy()) {"),
    ("executor.cpp", "  return chunks_[chunk].gradients_issued == task.micro_batch.value;",
     "  return true;"),
    ("executor.cpp",
     "  average = average_codes_[index] == 0 ? ns : average + (ns - average) / kAverageLength;",
     "  average = ns;"),
    ("executor.cpp", "      memory_used_ += memory.weight_gradient_input;", "      ;"),
    ("executor.cpp", "    return memory_used_ + program_->chunk_memory[chunk].activation <= options_.memory_limit;",
     "    return memory_used_ <= options_.memory_limit;"),
    ("adaptive_pipeline.cpp", "    return !enters || (entered_ + 1) * held_while_passing_ <= chunks_ * room_;",
     "    return !enters || entered_ * held_while_passing_ <= chunks_ * room_;"),
    ("adaptive_pipeline.cpp", "    if (still_to_come(other) - begun > free) {",
     "    if (still_to_come(other) - begun > free + 1) {"),
    ("adaptive_pipeline.cpp", "  const std::int32_t over = first == 0 ? micro_batches_ % size : 0;",
     "  const std::int32_t over = 0;"),
    ("adaptive_pipeline.cpp", "    held_while_passing_ += micro_batch_size_;",
     "    held_while_passing_ += size;"),
    ("adaptive_pipeline.cpp", "  const std::int64_t ahead = std::int64_t{chunks_ - 1} * size + lead;",
     "  const std::int64_t ahead = std::int64_t{chunks_ - 1} * size - lead;"),
    ("adaptive_pipeline.cpp", "  if (observation.in_flight > 0) {", "  if (observation.in_flight > 1) {"),
    ("adaptive_pipeline.cpp", "  const bool memory_is_free = 2 * held_ <= room_;",
     "  const bool memory_is_free = 2 * held_ < room_;"),
    ("adaptive_pipeline.cpp", "    before += still_to_come(other, chunk + (other < micro_batch ? 1 : 0));",
     "    before += still_to_come(other, chunk);"),
    ("adaptive_pipeline.cpp",
     "    if (message.exists() && observation.free_slots[message.channel] < 0) return true;",
     "    if (message.exists() && observation.free_slots[message.channel] <= 0) return true;"),
    ("adaptive_pipeline.cpp",
     "  pressure_ = std::clamp(pressure_ + (messages_wait_ ? 1 : -1), 0, kPressureMax);",
     "  pressure_ = std::clamp(pressure_ + (messages_wait_ ? 1 : 0), 0, kPressureMax);"),
    ("adaptive_pipeline.cpp", "  if (pressure_ >= kLinksFull) traversal_ = Traversal::Depth;",
     "  if (pressure_ > kLinksFull) traversal_ = Traversal::Depth;"),
    ("adaptive_pipeline.cpp", "  if (pressure_ <= kLinksFree) traversal_ = Traversal::Breadth;",
     "  if (pressure_ < kLinksFull) traversal_ = Traversal::Breadth;"),
    ("adaptive_pipeline.cpp", "  const bool forwards_turn = after_gradient_ && !messages_wait_;",
     "  const bool forwards_turn = after_gradient_;"),
    ("adaptive_pipeline.cpp", "  if (enters_pipeline(forward) && messages_wait_) {", "  if (false) {"),
    ("adaptive_pipeline.cpp", "  return held_ + overtaken_by(last) + sizes_.back() <= room;",
     "  return held_ + overtaken_by(last) <= room;"),
    ("adaptive_pipeline.cpp", "  const std::int32_t over = micro_batches_ % width;",
     "  const std::int32_t over = 0;"),
    ("adaptive_pipeline.cpp", "  if (slots == 1) room_ = depth_room_;", "  ;"),
    ("equal_memory.cpp", "      memory.sizes[chunk] = std::max(memory.sizes[chunk], size);",
     "      memory.sizes[chunk] = size;"),
    ("dynamic_pipeline.cpp", "    return forward_has_its_turn ? 0 : 2;",
     "    return forward_has_its_turn ? 2 : 0;"),
    ("dynamic_pipeline.cpp", "  const int held = entered_ * chunks - finished_;",
     "  const int held = entered_ * chunks;"),
    ("dynamic_pipeline.cpp", "    ++finished_;", "    ;"),
    ("one_forward_one_backward.cpp",
     "  return with_warm_up(shape, shape.micro_batches, shape.pipeline - 1 - stage.value);",
     "  return with_warm_up(shape, shape.micro_batches, shape.pipeline - stage.value);"),
    ("forward_backward_decoupling.cpp", "    for (int phase = 0; phase < shape.phases(); ++phase) {",
     "    for (int phase = shape.phases() - 1; phase >= 0; --phase) {"),
    ("gpipe.cpp", "  for (std::int32_t chunk = shape.model_chunks - 1; chunk >= 0; --chunk) {",
     "  for (std::int32_t chunk = 0; chunk < shape.model_chunks; ++chunk) {"),
    ("zero_bubble.cpp", "    if (i >= stage.value) {", "    if (i > stage.value) {"),
    ("zero_bubble.cpp", "  for (int n = 0; n < 2 * (p - i) - 1; ++n) {",
     "  for (int n = 0; n < 2 * (p - i); ++n) {"),
    ("state_hash.cpp", "  hash.add(static_cast<std::uint64_t>(observation.in_flight));", "  ;"),
    ("collective_coordinator.cpp", "    if (group.running || group.complete.empty()) {",
     "    if (group.complete.empty()) {"),
    ("collective_coordinator.cpp", "  if (std::find(bits.begin(), bits.end(), false) == bits.end()) {",
     "  if (std::count(bits.begin(), bits.end(), true) > 0) {"),
]
TESTS = ["policies_unit_test", "policies_property_test"]


def compile_command(build, source):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            if entry["file"] == source:
                return shlex.split(entry["command"]), entry["directory"]
    raise SystemExit(f"{source} is not in {build}/compile_commands.json")


def link_command(build, test):
    lines = subprocess.run(["ninja", "-C", build, "-t", "commands", f"tests/policies/{test}"],
                           check=True, capture_output=True, text=True).stdout.splitlines()
    command = lines[-1]
    start = command.index("&&") + 2 if command.startswith(": &&") else 0
    return command[start:].rsplit("&&", 1)[0].strip()


def run_mutant(root, build, links, scratch, mutant):
    name, old, new = mutant
    source = os.path.join(root, "policies", name)
    with open(source, encoding="utf-8") as file:
        text = file.read()
    if text.count(old + "\n") != 1:
        return "does not apply"
    mutated = os.path.join(scratch, name)
    with open(mutated, "w", encoding="utf-8") as file:
        file.write(text.replace(old + "\n", new + "\n"))
    command, directory = compile_command(build, source)
    obj = os.path.join(scratch, name + ".o")
    command[command.index("-o") + 1] = obj
    command = [mutated if part == source else part for part in command]
    built = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if built.returncode != 0:
        return "does not compile: " + built.stderr.splitlines()[0]
    for test in TESTS:
        program = os.path.join(scratch, test)
        link = links[test].replace(f"-o tests/policies/{test}", f"-o {program} {obj}", 1)
        subprocess.run(link, cwd=build, shell=True, check=True)
        try:
            ended = subprocess.run([program, "--gtest_brief=1"], cwd=root, capture_output=True,
                                   text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return f"caught: {test} does not end"
        if ended.returncode < 0:
            return f"caught: {test} aborts"
        if ended.returncode != 0:
            failed = [line.split("]")[1].split("(")[0].strip() for line in ended.stdout.splitlines()
                      if line.startswith("[  FAILED  ]")]
            return "caught: " + (failed[0] if failed else test)
    return "SURVIVES"


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(root, "build/release"))
    links = {test: link_command(build, test) for test in TESTS}
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number, mutant in enumerate(MUTANTS, start=1):
            verdict = run_mutant(root, build, links, scratch, mutant)
            bad += not verdict.startswith("caught")
            print(f"{number:2} {mutant[0]}: `{mutant[1].strip()}` -> `{mutant[2].strip()}`: {verdict}",
                  flush=True)
    print(f"{len(MUTANTS) - bad} of {len(MUTANTS)} caught")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

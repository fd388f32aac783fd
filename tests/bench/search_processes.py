#!/usr/bin/env python3
"""How a search gets faster with processes: medians of runs under mpirun, a table for each search.

    tests/bench/search_processes.py build/release/megatwin
    tests/bench/search_processes.py build/release/megatwin --only llama --processes 1 2 4 8
    tests/bench/search_processes.py build/release/megatwin --scenario job.yaml --search-options='--losers 5'

Without --scenario: each job of JOBS, once as it is and once with --exhaustive. One thread a process. The answers of
all runs of a search must be the same but for the time taken. The time is the search's own, `elapsed_s`: without
mpirun's start, with joining the processes. "Alone" is what Amdahl's law makes of a row and the first one: the part of
a search that more processes do not shorten.
"""
import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys

SCENARIOS = pathlib.Path(__file__).resolve().parents[2] / "scenarios"
# The last is the whole space of docs/performance.md: every overlap switch and both placements.
JOBS = {
    "llama": [str(SCENARIOS / "llama-3.1-70b-h100.yaml")],
    "gpt3-2021": [str(SCENARIOS / "gpt3-175b-a100.yaml")],
    "gpt3": [str(SCENARIOS / "gpt3-175b-a100.yaml"), "--set", "software={framework: megatron-core}"],
}


def run(search, processes, arguments):
    words = [arguments.program, "search"] + search + ["--threads", "1", "--json"]
    if processes > 1:
        words = [arguments.mpirun, "--allow-run-as-root", "-n", str(processes)] + arguments.mpirun_options + words
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    answer = json.loads(done.stdout)
    return answer.pop("elapsed_s"), answer


def measure(search, arguments):
    print(f"\n{shlex.join(search)}; {len(os.sched_getaffinity(0))} cores; median of {arguments.repeats}")
    head = ["processes", "seconds", "fastest", "slowest", "× of one", "× of half", "alone, s"]
    print(" ".join(f"{word:>9}" for word in head))
    medians, expected = {}, None
    for processes in arguments.processes:
        times = []
        for _ in range(arguments.repeats):
            elapsed, answer = run(search, processes, arguments)
            expected = expected or answer
            if answer != expected:
                sys.exit(f"{processes} processes give another answer")
            times.append(elapsed)
        medians[processes] = median = statistics.median(times)
        fewest = arguments.processes[0]
        first, half = medians[fewest], medians.get(processes / 2)
        of_half = f"{half / median:9.2f}" if half else f"{'':>9}"
        share = processes / fewest
        alone = f"{(median - first / share) / (1 - 1 / share):9.2f}" if share > 1 else f"{'':>9}"
        print(f"{processes:>9} {median:9.3f} {min(times):9.3f} {max(times):9.3f} {first / median:9.2f} {of_half} {alone}",
              flush=True)
    print("the answers are the same", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--scenario", help="this one instead of JOBS")
    parser.add_argument("--only", choices=JOBS, nargs="+", default=list(JOBS))
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--mpirun-options", type=shlex.split, default=["--bind-to", "none", "--oversubscribe"],
                        help="as one word: --mpirun-options='--bind-to core'")
    parser.add_argument("--search-options", type=shlex.split, action="append",
                        help="as one word, too; several times for several searches; instead of none and --exhaustive")
    arguments = parser.parse_args()

    jobs = [[arguments.scenario]] if arguments.scenario else [JOBS[name] for name in arguments.only]
    for job in jobs:
        for options in arguments.search_options or [[], ["--exhaustive"]]:
            measure(job + options, arguments)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""How a search gets faster with processes: medians of runs under mpirun, as a table.

    tests/bench/search_processes.py build/release/megatwin scenarios/llama-3.1-70b-h100.yaml

One thread a process. The answers of all runs must be the same but for the time taken. The time is the
search's own, `elapsed_s`: without mpirun's start, with joining the processes.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys


def run(program, scenario, processes, arguments):
    words = [program, "search", scenario, "--threads", "1", "--json"] + arguments.search_options
    if processes > 1:
        words = [arguments.mpirun, "--allow-run-as-root", "-n", str(processes)] + arguments.mpirun_options + words
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    answer = json.loads(done.stdout)
    return answer.pop("elapsed_s"), answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("scenario")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--mpirun-options", type=shlex.split, default=["--bind-to", "none", "--oversubscribe"],
                        help="as one word: --mpirun-options='--bind-to core'")
    parser.add_argument("--search-options", type=shlex.split, default=["--exhaustive"], help="as one word, too")
    arguments = parser.parse_args()

    print(f"{arguments.scenario} {' '.join(arguments.search_options)}; {len(os.sched_getaffinity(0))} cores; "
          f"median of {arguments.repeats}")
    print(f"{'processes':>9} {'seconds':>9} {'fastest':>9} {'slowest':>9} {'× of one':>9} {'× of half':>9}")
    medians, expected = {}, None
    for processes in arguments.processes:
        times = []
        for _ in range(arguments.repeats):
            elapsed, answer = run(arguments.program, arguments.scenario, processes, arguments)
            expected = expected or answer
            if answer != expected:
                sys.exit(f"{processes} processes give another answer")
            times.append(elapsed)
        medians[processes] = statistics.median(times)
        first, half = medians[arguments.processes[0]], medians.get(processes / 2)
        of_half = f"{half / medians[processes]:9.2f}" if half else f"{'':>9}"
        print(f"{processes:>9} {medians[processes]:9.3f} {min(times):9.3f} {max(times):9.3f} "
              f"{first / medians[processes]:9.2f} {of_half}", flush=True)
    print("the answers are the same")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Training steps out of core, each beside its bound. Called by scripts/bench_out_of_core.

A case is a model, a batch and where the state lives; it runs in a process of its own, from random
weights. Its step is the median after two steps of warm-up, its bound the program's own (bound_s of
the log), measured in the same run. Cases of one group take turns over the rounds, so that they can
be compared with each other; each has the median of its rounds. Where the machine's speed
changes, the bounds of the rounds differ (most / least) and step / bound is no better known than
that; how much of the step the cores were at work is. A step faster than its bound is an error of
the bound's: the exit status is 1.
"""
import argparse
import fnmatch
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from strata_bench import DRIVE, train, write_tokens

LEAST = 0.98  # of a bound: less is no noise of its measurement
HOST = "--place weights=host,moments=host,gradients=host --activations host"


@dataclass
class Case:
    name: str
    options: str
    target: float  # largest step / bound
    drive: bool = True


def drive_case(model, sequences, device, clip, extra=""):
    name = f"{model} {sequences}x512 {'clip 1.0' if clip else 'no clip'}"
    return Case(name, f"--model {model} --global-batch {sequences} --micro-batch 4 "
                f"--device-memory {device} --host-memory 512MiB --clip-norm {clip} {DRIVE} {extra}",
                1.10)


def memory_case(name, device, host, placement):
    return Case(f"gpt2-355m 4x512 {name}", "--model gpt2-355m --global-batch 4 --micro-batch 4 "
                f"--clip-norm 1.0 --device-memory {device} --host-memory {host} {placement}", 1.25,
                False)


GROUPS = [
    [drive_case("gpt2-355m", 4, "384MiB", 1.0)],
    [drive_case("gpt2-355m", 4, "384MiB", 0)],
    [drive_case("gpt2-355m", 16, "384MiB", 1.0)],
    [drive_case("gpt2-355m", 16, "384MiB", 0)],
    [drive_case("gpt2-774m", 4, "512MiB", 1.0)],
    [drive_case("gpt2-774m", 4, "512MiB", 0)],
    [memory_case("host", "384MiB", "8GiB", HOST),
     memory_case("in memory", "3GiB", "8GiB", "--activations device")],
]


def verdict(case, ratio):
    if ratio < LEAST:
        return " (faster than its bound)"
    return f" (over {case.target})" if ratio > case.target else ""


def measure(program, group, data, directory, steps, rounds):
    """Prints the group's rows; whether all of its bounds held."""
    results = [[] for _ in group]
    for _ in range(rounds):
        for case, found in zip(group, results):
            drive = ["--nvme", directory] if case.drive else []
            found.append(train(program, data, steps,
                               ["--on-nonfinite", "stop", *drive, *case.options.split()]))
    for case, found in zip(group, results):
        step = statistics.median(run.step_s for run in found)
        bound = statistics.median(run.bound_s for run in found)
        bounds = [run.bound_s for run in found]
        print(f"| {case.name} | {step:.2f} | {bound:.2f} | {max(bounds) / min(bounds):.2f} | "
              f"{step / bound:.2f}{verdict(case, step / bound)} | "
              f"{100 * statistics.median(run.cores for run in found):.0f} % | "
              f"{max(run.summary['resident_peak_bytes'] for run in found) / 2**20:.0f} |",
              flush=True)
    return all(run.step_s >= LEAST * run.bound_s for found in results for run in found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("directory")
    parser.add_argument("--cases", default="*")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    bounds_hold = True
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "tokens.bin")
        write_tokens(data)
        print("| case | step s | bound s | most / least | step / bound | cores at work "
              "| peak RSS MiB |\n|---|---|---|---|---|---|---|")
        for group in GROUPS:
            chosen = [case for case in group if fnmatch.fnmatch(case.name, args.cases)]
            if chosen:
                bounds_hold &= measure(args.program, chosen, data, args.directory, args.steps,
                                       args.rounds)
    if not bounds_hold:
        sys.exit(f"A step took less than {LEAST} of its bound, which is then no bound.")


if __name__ == "__main__":
    main()

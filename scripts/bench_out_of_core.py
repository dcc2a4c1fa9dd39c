#!/usr/bin/env python3
"""Training steps out of core, each beside its bound. Called by scripts/bench_out_of_core.

A case is a model, a batch and where the state lives; it runs in a process of its own, from random
weights. Its step is the median after two steps of warm-up. Its bound is measured before the run, at
the run's start (bound_s of the log) and after it: the median. Cases of one group take turns over
the rounds, so that they can be compared with each other; each has the median of its rounds. Where
the machine's speed changes, the bounds differ (least and most) and step / bound is no better known
than that. Known then is in which share of the step its limit, cores or drive, was at work, from the
trace of the median step; and which share of their time the processors spent. A run whose step is
faster than the least of its own bounds shows an error of the bound's: its row says so, and the exit
status is 1.
"""
import argparse
import fnmatch
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from strata_bench import DRIVE, TOKENS, train, write_tokens

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


def measured_bound(program, data, options):
    """The bound of a step, from rates that are measured now."""
    words = ["--from-scratch", "--data", data, "--seq-len", str(TOKENS), "--steps", "1000",
             "--device", "cpu", "--json", *options]
    for command in ["tune", "--refresh", "--vary", "none", "--plans", "1"], ["plan"]:
        done = subprocess.run([program, *command, *words], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)["machine"]["bound"]["seconds"]


def measure_run(program, data, options, steps):
    """A run, and the bounds before, at its start and after it."""
    before = measured_bound(program, data, options)
    run = train(program, data, steps, options)
    return run, [before, run.bound_s, measured_bound(program, data, options)]


def measure(program, group, data, directory, steps, rounds):
    """Prints the group's rows; whether all of its bounds held."""
    results = [[] for _ in group]
    for _ in range(rounds):
        for case, found in zip(group, results):
            drive = ["--nvme", directory] if case.drive else []
            options = ["--on-nonfinite", "stop", *drive, *case.options.split()]
            found.append(measure_run(program, data, options, steps))
    holds = True
    for case, found in zip(group, results):
        step = statistics.median(run.step_s for run, _ in found)
        bounds = [bound for _, run_bounds in found for bound in run_bounds]
        ratio = step / statistics.median(bounds)
        held = all(run.step_s >= LEAST * min(run_bounds) for run, run_bounds in found)
        holds &= held
        print(f"| {case.name} | {step:.2f} | {statistics.median(bounds):.2f} "
              f"| {min(bounds):.2f} - {max(bounds):.2f} "
              f"| {ratio:.2f}{f' (over {case.target})' if ratio > case.target else ''}"
              f"{'' if held else ' (below its bound)'} "
              f"| {100 * statistics.median(run.at_work for run, _ in found):.1f} % "
              f"| {100 * statistics.median(run.processors for run, _ in found):.0f} % "
              f"| {max(run.summary['resident_peak_bytes'] for run, _ in found) / 2**20:.0f} |",
              flush=True)
    return holds


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
        os.environ["XDG_CACHE_HOME"] = folder  # what is measured here is not for later runs
        data = os.path.join(folder, "tokens.bin")
        write_tokens(data)
        print("| case | step s | bound s | least - most | step / bound | limit at work "
              "| processors | peak RSS MiB |\n|---|---|---|---|---|---|---|---|")
        for group in GROUPS:
            chosen = [case for case in group if fnmatch.fnmatch(case.name, args.cases)]
            if chosen:
                bounds_hold &= measure(args.program, chosen, data, args.directory, args.steps,
                                       args.rounds)
    if not bounds_hold:
        sys.exit(f"A step took less than {LEAST} of all its bounds, which are then no bounds.")


if __name__ == "__main__":
    main()

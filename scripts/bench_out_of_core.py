#!/usr/bin/env python3
"""Training steps out of core, each beside its bound. Called by scripts/bench_out_of_core.

A case is a model, a batch and where the state lives; it runs in a process of its own, from random
weights. Its step is the median after two steps of warm-up, its bound the program's own (bound_s of
the log), measured in the same run. Cases of one group take turns over ROUNDS, so that they can be
compared with each other; each has the median of its rounds.
"""
import argparse
import fnmatch
import json
import os
import random
import statistics
import struct
import subprocess
import tempfile
from dataclasses import dataclass

WARM_UP = 2  # the first step has no update in it, the second is the first with one
ROUNDS = 3   # of a group of several cases
VOCABULARY = 50257
DRIVE = "--place weights=nvme,moments=nvme,gradients=nvme --activations nvme"
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


def write_tokens(path):
    """llm.c's format: a header of 256 ints, then u16 ids."""
    numbers = random.Random(1)
    count = 1 << 18
    with open(path, "wb") as file:
        file.write(struct.pack("<256i", 20240520, 1, count, *([0] * 253)))
        file.write(struct.pack(f"<{count}H", *(numbers.randrange(VOCABULARY) for _ in range(count))))


def run(program, case, data, directory, steps):
    """Median seconds of a step, its bound, and the run's summary."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as log:
        drive = ["--nvme", directory] if case.drive else []
        done = subprocess.run(
            [program, "train", "--from-scratch", "--data", data, "--seq-len", "512", "--steps",
             str(steps + WARM_UP), "--on-nonfinite", "stop", "--device", "cpu", "--log", log.name,
             "--json", *drive, *case.options.split()], check=True, capture_output=True, text=True)
        records = [json.loads(line) for line in open(log.name)][WARM_UP:]
    summary = json.loads(done.stdout.splitlines()[-1])
    return (statistics.median(r["step_s"] for r in records),
            statistics.median(r["bound_s"] for r in records), summary)


def measure(program, group, data, directory, steps):
    results = [[] for _ in group]
    for _ in range(ROUNDS if len(group) > 1 else 1):
        for case, found in zip(group, results):
            found.append(run(program, case, data, directory, steps))
    for case, found in zip(group, results):
        step, bound, summary = sorted(found, key=lambda r: r[0])[len(found) // 2]
        verdict = "" if step <= case.target * bound else f" (over {case.target})"
        print(f"| {case.name} | {step:.2f} | {bound:.2f} | {step / bound:.2f}{verdict} | "
              f"{summary['resident_peak_bytes'] / 2**20:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("directory")
    parser.add_argument("--cases", default="*")
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "tokens.bin")
        write_tokens(data)
        print("| case | step s | bound s | step / bound | peak RSS MiB |\n|---|---|---|---|---|")
        for group in GROUPS:
            chosen = [case for case in group if fnmatch.fnmatch(case.name, args.cases)]
            if chosen:
                measure(args.program, chosen, data, args.directory, args.steps)


if __name__ == "__main__":
    main()

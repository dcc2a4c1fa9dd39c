"""What benchmarks of training steps share: tokens, where the state lies, and a run's times."""
import json
import os
import random
import statistics
import struct
import subprocess
import tempfile
from dataclasses import dataclass

VOCABULARY = 50257
TOKENS = 512  # of a sequence
DRIVE = "--place weights=nvme,moments=nvme,gradients=nvme --activations nvme"
WARM_UP = 2  # the first step has no update in it, the second is the first with one


def write_tokens(path, vocabulary=VOCABULARY):
    """llm.c's format: a header of 256 ints, then u16 ids."""
    numbers = random.Random(1)
    count = 1 << 18
    tokens = (numbers.randrange(vocabulary) for _ in range(count))
    with open(path, "wb") as file:
        file.write(struct.pack("<256i", 20240520, 1, count, *([0] * 253)))
        file.write(struct.pack(f"<{count}H", *tokens))


@dataclass
class Trained:
    """A run's steps after the warm-up: medians."""
    step_s: float
    bound_s: float
    processors: float  # share of their time in which they did anything for this process
    at_work: float  # share of the median step in which its limit, cores or drive, was at work
    summary: dict  # the last line of --json


def train(program, data, steps, options):
    """Trains from random weights, `steps` after the warm-up."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as log:
        done = subprocess.run(
            [program, "train", "--from-scratch", "--data", data, "--seq-len", str(TOKENS),
             "--steps", str(steps + WARM_UP), "--device", "cpu", "--log", log.name, "--json",
             "--profile", *options],
            check=True, stdout=subprocess.PIPE, text=True)
        records = [json.loads(line) for line in open(log.name)][WARM_UP:]
    processors = len(os.sched_getaffinity(0))
    *_, profile, summary = map(json.loads, done.stdout.splitlines())
    step = profile["profile"]["median"]
    work = {row["row"]: sum(row["work"].values()) for row in step["rows"]}
    return Trained(statistics.median(r["step_s"] for r in records),
                   statistics.median(r["bound_s"] for r in records),
                   statistics.median(r["cpu_s"] / r["step_s"] for r in records) / processors,
                   max(work["cores"], work.get("drive", 0)) / step["wall_s"], summary)

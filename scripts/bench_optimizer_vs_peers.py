#!/usr/bin/env python3
"""AdamW on the CPU: Strata, PyTorch's fused AdamW and DeepSpeed's CPUAdam, taking turns.

Called by scripts/bench_optimizer_vs_peers. Two tasks, each with 1 thread and with all:

  equal work      f32 parameters, moments and gradients, updated in place: 28 bytes by everyone
  whole update    from bf16 gradients to bf16 working weights with f32 masters. Strata makes one
                  pass over split masters, 26 bytes; the others cast the gradients up (6 bytes), step
                  (28) and cast the weights down (6).

Every round measures PyTorch, Strata and DeepSpeed, one after the other; a figure of a round is a
median of steps. The ratio is the median over rounds of peer / Strata, so that what else the machine
does meets both sides.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

TASKS = ("equal work", "whole update")
BYTES = {"strata": {"equal work": 28, "whole update": 26},
         "torch": {"equal work": 28, "whole update": 40},
         "deepspeed": {"equal work": 28, "whole update": 40}}
STEPS = 5


def strata_ns(program, elements, threads):
    variants = {"f32-masters": "equal work", "bf16-gradients": "whole update"}
    output = subprocess.run(
        [program, "bench", "optimizer", "--json", "--elements", str(elements), "--threads",
         str(threads), "--variants", ",".join(variants)],
        check=True, capture_output=True, text=True).stdout
    return {variants[cell["variant"]]: cell["ns_per_parameter"]
            for cell in json.loads(output)["cells"]}


class Peer:
    """A process of its own, which measures when it is asked to."""

    def __init__(self, name, elements, threads):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--peer", name, "--elements", str(elements), "--threads",
             str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure_ns(self):
        self.process.stdin.write("measure\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("{"):  # DeepSpeed prints more
                return json.loads(line)
        sys.exit(f"a peer ended with status {self.process.wait()}")

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def run_peer(peer, elements, threads):
    """For each line read, prints nanoseconds per parameter of both tasks."""
    import torch
    torch.set_num_threads(threads)
    start = torch.rand(elements) * 2 - 1
    gradient = (torch.rand(elements) * 2 - 1) * 1e-3
    gradient16 = gradient.to(torch.bfloat16)
    weight16 = start.to(torch.bfloat16)
    parameter = torch.nn.Parameter(start)
    parameter.grad = gradient
    settings = dict(lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
    if peer == "torch":
        optimizer = torch.optim.AdamW([parameter], fused=True, **settings)
    else:
        from deepspeed.ops.adam import DeepSpeedCPUAdam
        optimizer = DeepSpeedCPUAdam([parameter], adamw_mode=True, **settings)

    def whole_update():
        parameter.grad.copy_(gradient16)
        optimizer.step()
        weight16.copy_(parameter.data)

    def median_ns(step):
        times = []
        for _ in range(STEPS):
            begin = time.perf_counter()
            step()
            times.append(time.perf_counter() - begin)
        return statistics.median(times) / elements * 1e9

    optimizer.step()  # which allocates its state
    for _ in sys.stdin:
        figures = {"equal work": median_ns(optimizer.step),
                   "whole update": median_ns(whole_update)}
        print(json.dumps(figures), flush=True)


def compare(program, elements, rounds, threads):
    peers = {name: Peer(name, elements, threads) for name in ("torch", "deepspeed")}
    ours, theirs = [], {name: [] for name in peers}
    for _ in range(rounds):
        theirs["torch"].append(peers["torch"].measure_ns())
        ours.append(strata_ns(program, elements, threads))
        theirs["deepspeed"].append(peers["deepspeed"].measure_ns())
    for peer in peers.values():
        peer.end()
    print(f"\nthreads {threads}{'':<14} {'bytes':>6} {'ns/param':>9} {'peer / Strata':>14}")
    for task in TASKS:
        print(f"{task}")
        figure = statistics.median(our[task] for our in ours)
        print(f"  {'strata':<20} {BYTES['strata'][task]:>6} {figure:>9.3f}")
        for peer in peers:
            figure = statistics.median(their[task] for their in theirs[peer])
            ratio = statistics.median(
                their[task] / our[task] for their, our in zip(theirs[peer], ours))
            print(f"  {peer:<20} {BYTES[peer][task]:>6} {figure:>9.3f} {ratio:>13.2f}x", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?")
    parser.add_argument("--elements", type=int, required=True)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--peer", choices=("torch", "deepspeed"))
    args = parser.parse_args()
    if args.peer:
        run_peer(args.peer, args.elements, args.threads)
        return
    print(f"{args.elements:,} parameters, {args.rounds} rounds, medians")
    for threads in dict.fromkeys((1, len(os.sched_getaffinity(0)))):
        compare(args.program, args.elements, args.rounds, threads)


if __name__ == "__main__":
    main()

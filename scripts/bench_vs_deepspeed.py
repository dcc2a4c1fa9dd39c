#!/usr/bin/env python3
"""A step of 4 x 512 tokens with everything on NVMe: Strata and DeepSpeed's ZeRO-Infinity in turn.

Called by scripts/bench_vs_deepspeed. A step is forward, backward with recomputed blocks, clipping
at norm 1 and AdamW, in bf16, from random weights, on the CPU accelerator there. Gradients wait in
bf16 in both (--grad-dtype bf16) where DeepSpeed computes in bf16. Each round runs both, one after
the other, in processes of their own. A figure of a round is the median of the steps after the
first; where DeepSpeed does not get through its second step, its first counts, for ours still a
later one, which has an update in it.

PyTorch has no fast bf16 products on CPUs without AVX-512 (a hundredth of the rate of its f32 ones):
there DeepSpeed runs in f32, with weights and gradients of twice the bytes; ours stays in bf16.
--peer-dtype decides otherwise.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from strata_bench import DRIVE, TOKENS, VOCABULARY, train, write_tokens

SEQUENCES = 4
SHAPES = {"gpt2-124m": (12, 768, 12), "gpt2-355m": (24, 1024, 16), "gpt2-774m": (36, 1280, 20)}
MEMORY = {"gpt2-124m": "288MiB", "gpt2-355m": "384MiB", "gpt2-774m": "512MiB"}


def ours(program, model, data, directory, threads, steps):
    run = train(
        program, data, steps,
        ["--model", model, "--global-batch", str(SEQUENCES), "--micro-batch", str(SEQUENCES),
         "--clip-norm", "1", "--grad-dtype", "bf16", "--threads", str(threads), "--device-memory",
         MEMORY[model], "--host-memory", "512MiB", "--nvme", directory, *DRIVE.split()])
    return {"step_s": run.step_s, "bound_s": run.bound_s,
            "rss": run.summary["resident_peak_bytes"], "complete": True}


def theirs(model, directory, args):
    environment = dict(os.environ, DS_ACCELERATOR="cpu", OMP_NUM_THREADS=str(args.threads),
                       RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1",
                       MASTER_PORT="29511")
    if args.jemalloc:
        environment["LD_PRELOAD"] = args.jemalloc
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        done = subprocess.run([sys.executable, __file__, model, folder, "--peer", "--threads",
                               str(args.threads), "--steps", str(args.steps + 1), "--peer-dtype",
                               args.peer_dtype], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env=environment)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"step_s"')]
    if not lines:
        sys.exit(f"DeepSpeed did not finish a step of {model}:\n{done.stderr[-2000:]}")
    if done.returncode != 0:
        print(f"DeepSpeed ended after {len(lines)} steps with status {done.returncode}: "
              f"{(done.stderr.splitlines() or ['?'])[-1]}", file=sys.stderr)
    later = lines[1:] or lines
    return {"step_s": statistics.median(line["step_s"] for line in later),
            "rss": max(line["rss"] for line in lines), "complete": done.returncode == 0}


def fastest_dtype(threads):
    """Of PyTorch's matrix products here."""
    import torch
    torch.set_num_threads(threads)

    def seconds(dtype):
        a, b = torch.ones(256, 768, dtype=dtype), torch.ones(768, 768, dtype=dtype)
        a @ b
        begin = time.perf_counter()
        a @ b
        return time.perf_counter() - begin
    return "bf16" if seconds(torch.bfloat16) < 2 * seconds(torch.float32) else "f32"


def run_peer(model, directory, threads, steps, dtype):
    """Prints a line for every step."""
    import deepspeed
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.set_num_threads(threads)
    layers, hidden, heads = SHAPES[model]
    element_bytes = {"bf16": 2, "f32": 4}[dtype]
    offload = {"device": "nvme", "nvme_path": directory, "pin_memory": True}
    config = {
        "train_micro_batch_size_per_gpu": SEQUENCES, "bf16": {"enabled": dtype == "bf16"},
        "gradient_clipping": 1.0, "steps_per_print": 1000,
        "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "weight_decay": 0.1}},
        "aio": {"block_size": 1 << 20, "queue_depth": 8, "overlap_events": True},
        "zero_optimization": {
            "stage": 3, "overlap_comm": True, "contiguous_gradients": True,
            "sub_group_size": int(1e8), "stage3_max_live_parameters": int(1e8),
            "stage3_prefetch_bucket_size": int(5e7), "reduce_bucket_size": int(5e7),
            "stage3_param_persistence_threshold": int(1e4),
            "offload_optimizer": dict(offload, buffer_count=12, pipeline_read=True,
                                      pipeline_write=True),
            "offload_param": dict(offload, buffer_count=120 // element_bytes,
                                  buffer_size=int(5.6e7), max_in_cpu=0)}}
    deepspeed.init_distributed(dist_backend="gloo")
    with deepspeed.zero.Init(config_dict_or_path=config):
        network = GPT2LMHeadModel(GPT2Config(
            n_layer=layers, n_embd=hidden, n_head=heads, resid_pdrop=0, embd_pdrop=0,
            attn_pdrop=0, attn_implementation="sdpa"))
    network.gradient_checkpointing_enable()
    engine, *_ = deepspeed.initialize(model=network, config=config,
                                      model_parameters=network.parameters())
    tokens = torch.randint(0, VOCABULARY, (SEQUENCES, TOKENS))
    for _ in range(steps):
        begin = time.perf_counter()
        loss = engine(input_ids=tokens, labels=tokens).loss
        engine.backward(loss)
        engine.step()
        print(json.dumps({"step_s": time.perf_counter() - begin, "rss": resource.getrusage(
            resource.RUSAGE_SELF).ru_maxrss * 1024}), flush=True)


def compare(args, model, data):
    strata, deepspeed = [], []
    for _ in range(args.rounds):
        strata.append(ours(args.program, model, data, args.directory, args.threads, args.steps))
        deepspeed.append(theirs(model, args.directory, args))
    step, bound = (statistics.median(r[key] for r in strata) for key in ("step_s", "bound_s"))
    theirs_s = statistics.median(r["step_s"] for r in deepspeed)
    ratio = statistics.median(d["step_s"] / s["step_s"] for s, d in zip(strata, deepspeed))
    memory = max(r["rss"] for r in strata), max(r["rss"] for r in deepspeed)
    ended = "" if all(r["complete"] for r in deepspeed) else " (ends in an error)"
    print(f"| {model} | {args.peer_dtype} | {step:.2f} | {step / bound:.2f} "
          f"| {theirs_s:.2f}{ended} | {ratio:.2f} | {memory[0] / 1e9:.2f} | {memory[1] / 1e9:.2f} "
          f"| {memory[0] / memory[1]:.3f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("directory")
    parser.add_argument("--jemalloc", default="")
    parser.add_argument("--models", default="gpt2-124m")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--peer-dtype", choices=["bf16", "f32"], default="")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        return run_peer(args.program, args.directory, args.threads, args.steps, args.peer_dtype)
    args.peer_dtype = args.peer_dtype or fastest_dtype(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "tokens.bin")
        write_tokens(data)
        print("| model | DeepSpeed's type | Strata s | / bound | DeepSpeed s | ratio "
              "| Strata GB | DeepSpeed GB | share |"
              "\n|---|---|---|---|---|---|---|---|---|")
        for model in args.models.split(","):
            compare(args, model, data)


if __name__ == "__main__":
    main()

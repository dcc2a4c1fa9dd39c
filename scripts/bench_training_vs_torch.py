#!/usr/bin/env python3
"""A training step of 4 x 512 tokens on the CPU: Strata and PyTorch, taking turns.

Called by scripts/bench_training_vs_torch. A step is forward, backward and AdamW of the whole model,
from random weights, with everything in memory. PyTorch runs in f32, in bf16 autocast and in pure
bf16, with its scaled dot product attention and fused AdamW; the best of them counts. Blocks are
recomputed neither there nor here (`--recompute off`); here the head's logits are. Every round
measures each, one after the other, in a process of its own, since three of PyTorch's together take
16 GB; a figure of a round is a median of steps, the ratio the median over rounds of Strata's
tokens/s over the best of PyTorch's. The share of the bound is Strata's own (docs/log.md, bound_s /
step_s).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SEQUENCES, TOKENS = 4, 512
MODES = ("f32", "autocast", "bf16")
VOCABULARY = {"gpt2-124m": 50257, "smollm2-135m": 49152}
JEMALLOC = ("oversize_threshold:1,background_thread:true,metadata_thp:auto,dirty_decay_ms:-1,"
            "muzzy_decay_ms:-1")


def strata_step(program, model, data, threads, steps):
    """Seconds of a step and share of the bound, medians without the first step."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as log:
        subprocess.run(
            [program, "train", "--model", model, "--from-scratch", "--data", data, "--device",
             "cpu", "--steps", str(steps + 1), "--global-batch", str(SEQUENCES), "--micro-batch",
             str(SEQUENCES), "--seq-len", str(TOKENS), "--device-memory", "6GiB", "--host-memory",
             "2GiB", "--recompute", "off", "--threads", str(threads), "--log", log.name],
            check=True, capture_output=True)
        records = [json.loads(line) for line in open(log.name)][1:]
    seconds = statistics.median(r["step_s"] for r in records)
    return seconds, statistics.median(r["bound_s"] / r["step_s"] for r in records if r["bound_s"])


def peer_step(model, mode, threads, steps, jemalloc):
    """Seconds of a step of PyTorch in one mode, the median without the first step."""
    environment = dict(os.environ, THP_MEM_ALLOC_ENABLE="1")
    if jemalloc:
        environment.update(LD_PRELOAD=jemalloc, MALLOC_CONF=JEMALLOC)
    peer = subprocess.run(
        [sys.executable, __file__, "--peer", mode, "--models", model, "--threads", str(threads),
         "--steps", str(steps)], check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return float(peer.stdout)


def torch_model(name):
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    if name == "gpt2-124m":
        return GPT2LMHeadModel(GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                                          attn_implementation="sdpa"))
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY[name], hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
        num_attention_heads=9, num_key_value_heads=3, tie_word_embeddings=True,
        attn_implementation="sdpa"))


def run_peer(name, mode, threads, steps):
    """Prints the median seconds of so many steps after a first one."""
    import torch
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = torch_model(name).train()
    if mode == "bf16":
        model = model.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    vocabulary = VOCABULARY[name]
    tokens, targets = (torch.randint(0, vocabulary, (SEQUENCES, TOKENS)) for _ in range(2))

    def step():
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mode == "autocast"):
            logits = model(input_ids=tokens).logits
            loss = torch.nn.functional.cross_entropy(logits.view(-1, vocabulary), targets.view(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return time.perf_counter() - start

    step()
    print(statistics.median(step() for _ in range(steps)))


def write_tokens(path, vocabulary, count):
    """A llm.c file; the arithmetic does not look at what the tokens are."""
    import numpy
    header = numpy.zeros(256, dtype=numpy.int32)
    header[:3] = 20240520, 1, count
    tokens = numpy.random.default_rng(0).integers(0, vocabulary, count, dtype=numpy.uint16)
    with open(path, "wb") as file:
        file.write(header.tobytes() + tokens.tobytes())


def measure(program, model, options, folder):
    data = os.path.join(folder, model + ".bin")
    write_tokens(data, VOCABULARY[model], 1 << 17)
    rounds = []
    for number in range(options.rounds):
        times = {mode: peer_step(model, mode, options.threads, options.steps, options.jemalloc)
                 for mode in MODES}
        times["strata"], share = strata_step(program, model, data, options.threads, options.steps)
        best = min(MODES, key=lambda mode: times[mode])
        rounds.append((times, share, times[best] / times["strata"]))
        speeds = ", ".join(f"{name} {SEQUENCES * TOKENS / t:.0f}" for name, t in times.items())
        print(f"  {model} round {number + 1}: tokens/s {speeds}; {times[best] / times['strata']:.2f} "
              f"times the best of PyTorch ({best}), {share:.2f} of the bound", flush=True)
    ratios = [ratio for _, _, ratio in rounds]
    print(f"{model}: {statistics.median(ratios):.2f} times PyTorch's best "
          f"({min(ratios):.2f} to {max(ratios):.2f}), "
          f"{statistics.median(share for _, share, _ in rounds):.2f} of the bound")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata", nargs="?")
    parser.add_argument("--models", default="gpt2-124m")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--jemalloc", default="")
    parser.add_argument("--peer")
    options = parser.parse_args()
    if options.peer:
        run_peer(options.models, options.peer, options.threads, options.steps)
        return
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models.split(","):
            measure(options.strata, model, options, folder)


if __name__ == "__main__":
    main()

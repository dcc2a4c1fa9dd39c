#!/usr/bin/env python3
"""Checks a folder of `strata export` with other people's code: transformers, safetensors, torch.

    scripts/check_export.py FOLDER                       loads it; no tensor missing, none left over
    scripts/check_export.py FOLDER --run RUN             and its loss is what the run's log says
                            [--tolerance 1e-5]           (relative)
    scripts/check_export.py FOLDER --original MODEL      and its logits are those of another folder

Where the folder has optimizer files, the weights are compared with the masters in them. With --run,
the loss over the run's validation data, by transformers in f32 on the CPU, is compared with the last
val_loss of RUN/log.jsonl; the run needs --val-data of bytes (a text file), --eval-batches 0, and for
agreement to rounding --precision f32. Exits with 1 where something differs.
"""

import argparse
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM

CONV1D = (".c_attn.weight", ".c_proj.weight", ".c_fc.weight")


def load(folder):
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True
    )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[kind]:
            sys.exit(f"{folder}: {kind}: {info[kind]}")
    return model.eval()


def tensors_of(folder, pattern):
    tensors = {}
    for path in sorted(pathlib.Path(folder).glob(pattern)):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():
                tensors[name] = file.get_tensor(name)
    return tensors


def rounded_to_bf16(master):
    """To nearest, ties away from zero, as Strata's working weights are."""
    bits = master.contiguous().view(torch.int32).to(torch.int64) + 0x8000
    return (bits >> 16 << 16).to(torch.int32).view(torch.float32)


def compare_with_masters(folder):
    optimizer = tensors_of(folder, "optimizer-*.safetensors")
    if not optimizer:
        return 0
    weights = tensors_of(folder, "model*.safetensors")
    masters = {name for name in optimizer if name.endswith(".master")}
    if len(masters) != len(weights):
        sys.exit(f"{folder}: {len(weights)} weights and {len(masters)} masters")
    for name, weight in weights.items():
        ours = name.removeprefix("transformer.").removeprefix("model.")
        master = optimizer[ours + ".master"]
        expected = master if weight.dtype == torch.float32 else rounded_to_bf16(master)
        if name.endswith(CONV1D):
            expected = expected.T
        if not torch.equal(weight.float(), expected):
            sys.exit(f"{folder}: {name} is not its master")
    return len(masters)


def mean_loss(model, tokens, length):
    """Over sequences [s T, s T + T] of the tokens, T inputs and T targets each."""
    total, count = 0.0, 0
    with torch.inference_mode():
        for first in range(0, len(tokens) - length, length):
            sequence = torch.from_numpy(tokens[first : first + length + 1].astype(np.int64))
            logits = model(sequence[None, :-1]).logits[0].double()
            loss = torch.nn.functional.cross_entropy(logits, sequence[1:], reduction="sum")
            total, count = total + loss.item(), count + length
    return total / count


def largest_difference(model, other):
    """Of the logits of two models, over random ids."""
    length = min(model.config.max_position_embeddings, 64)
    ids = torch.randint(0, model.config.vocab_size, (4, length), generator=torch.manual_seed(1))
    with torch.inference_mode():
        return (model(ids).logits - other(ids).logits).abs().max().item()


def last_val_loss(run):
    losses = []
    for line in (run / "log.jsonl").read_text().splitlines():
        loss = json.loads(line).get("val_loss")
        if loss is not None:
            losses.append(loss)
    return losses[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--run", type=pathlib.Path)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--original")
    arguments = parser.parse_args()

    model = load(arguments.folder)
    print(f"{arguments.folder}: {sum(p.numel() for p in model.parameters())} parameters load")
    masters = compare_with_masters(arguments.folder)
    if masters:
        print(f"{masters} weights are their masters, rounded where they are bf16")
    if arguments.original:
        difference = largest_difference(model, load(arguments.original))
        print(f"logits differ from those of {arguments.original} by at most {difference:.1e}")
        if difference > arguments.tolerance:
            sys.exit(f"{arguments.folder}: logits differ by more than {arguments.tolerance}")
    if arguments.run:
        options = json.loads((arguments.run / "options.json").read_text())
        tokens = np.fromfile(options["val-data"], dtype=np.uint8)
        length = options["seq-len"]
        if length == "auto":
            length = model.config.max_position_embeddings
        loss = mean_loss(model, tokens, length)
        logged = last_val_loss(arguments.run)
        difference = abs(loss - logged) / logged
        print(f"loss {loss:.7f}, in the log {logged:.7f}: differ by {difference:.1e}")
        if not difference <= arguments.tolerance:
            sys.exit(f"{arguments.folder}: the loss differs by more than {arguments.tolerance}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes tests/optim_cpu/optimizer_goldens.h: weights after a hundred steps of PyTorch's AdamW and
Adam, and of Lion as its paper writes it; and the 8-bit dynamic maps of bitsandbytes.

Run in float64, so that the numbers differ from ours by our f32 rounding alone. All inputs and both
betas are fractions that f32 holds exactly; tests/optim_cpu/optimizer_test.cc builds the same ones.
Needs torch and bitsandbytes.
"""
import pathlib

import bitsandbytes
import torch
from bitsandbytes.functional import create_dynamic_map

ELEMENTS = 8
STEPS = 100
SETTINGS = dict(lr=1 / 128, betas=(0.875, 0.9375), weight_decay=0.125)


def start():
    return torch.tensor([(2 * i - 7) / 16 for i in range(ELEMENTS)], dtype=torch.float64)


def gradient(step):
    return torch.tensor([((7 * i + 5 * step) % 11 - 5) / 16 for i in range(ELEMENTS)],
                        dtype=torch.float64)


def adam(optimizer_class):
    weight = start().requires_grad_()
    optimizer = optimizer_class([weight], eps=1e-8, **SETTINGS)
    for step in range(1, STEPS + 1):
        weight.grad = gradient(step)
        optimizer.step()
    return weight.detach().tolist()


def lion():
    """Chen et al. 2023, Symbolic Discovery of Optimization Algorithms, algorithm 2."""
    weight, moment = start(), torch.zeros(ELEMENTS, dtype=torch.float64)
    lr, (beta1, beta2) = SETTINGS["lr"], SETTINGS["betas"]
    for step in range(1, STEPS + 1):
        g = gradient(step)
        direction = beta1 * moment + (1 - beta1) * g
        # Where rounding could turn the sign, f32 and float64 would part.
        assert ((direction == 0) | (direction.abs() > 1e-6)).all()
        weight -= lr * (direction.sign() + SETTINGS["weight_decay"] * weight)
        moment = beta2 * moment + (1 - beta2) * g
    return weight.tolist()


def array(kind, name, values):
    return [f"inline constexpr {kind} {name}[{len(values)}] = {{",
            "    " + " ".join(f"{value!r}," for value in values), "};"]


def main():
    lines = ["// Written by scripts/make_optimizer_goldens.py with PyTorch "
             f"{torch.__version__.split('+')[0]}, float64, and bitsandbytes "
             f"{bitsandbytes.__version__}.",
             "#pragma once", "",
             f"inline constexpr int kGoldenElements = {ELEMENTS};",
             f"inline constexpr int kGoldenSteps = {STEPS};"]
    lines += array("double", "kAdamWWeights", adam(torch.optim.AdamW))
    lines += array("double", "kAdamWeights", adam(torch.optim.Adam))
    lines += array("double", "kLionWeights", lion())
    # Numbers above zero; the signed map has their negatives too, all but that of 1.
    for name, signed in (("kSignedMapLevels", True), ("kUnsignedMapLevels", False)):
        levels = create_dynamic_map(signed=signed)
        lines += array("double", name, [float(f"{v:.7g}") for v in levels.tolist() if v > 0])
    path = pathlib.Path(__file__).parent.parent / "tests/optim_cpu/optimizer_goldens.h"
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes tests/optim_cpu/adam_goldens.h: weights after ten steps of PyTorch's AdamW and Adam.

Run in float64, so that the numbers differ from ours by our f32 rounding alone. The inputs are
fractions that f32 holds exactly; tests/optim_cpu/adam_test.cc builds the same ones.
"""
import pathlib

import torch

ELEMENTS = 8
STEPS = 10


def weights_after(optimizer_class):
    weight = torch.tensor([(2 * i - 7) / 16 for i in range(ELEMENTS)], dtype=torch.float64)
    weight.requires_grad_()
    optimizer = optimizer_class(
        [weight], lr=1 / 128, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.125)
    for step in range(1, STEPS + 1):
        weight.grad = torch.tensor(
            [((7 * i + 5 * step) % 11 - 5) / 16 for i in range(ELEMENTS)], dtype=torch.float64)
        optimizer.step()
    return weight.detach().tolist()


def main():
    arrays = {"kAdamWWeights": weights_after(torch.optim.AdamW),
              "kAdamWeights": weights_after(torch.optim.Adam)}
    lines = ["// Written by scripts/make_optimizer_goldens.py with PyTorch "
             f"{torch.__version__.split('+')[0]}, float64.",
             "#pragma once", "",
             "inline constexpr int kGoldenElements = %d;" % ELEMENTS,
             "inline constexpr int kGoldenSteps = %d;" % STEPS]
    for name, values in arrays.items():
        lines.append(f"inline constexpr double {name}[kGoldenElements] = {{")
        lines += [f"    {value!r}," for value in values]
        lines.append("};")
    path = pathlib.Path(__file__).parent.parent / "tests/optim_cpu/adam_goldens.h"
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

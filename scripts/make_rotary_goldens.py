#!/usr/bin/env python3
"""Writes tests/models/rotary_goldens.h: frequencies, cosines and sines of rotary embeddings as
transformers' Llama model computes them, for every kind of scaling.

The configurations are those of tests/models/rotary_tables_test.cc. Needs torch and transformers.
"""
import pathlib
import textwrap

import torch
import transformers
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

POSITIONS = [0, 1, 17, 1000]
LLAMA3 = dict(rope_type="llama3", low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)
YARN = dict(rope_type="yarn", original_max_position_embeddings=4096)
CONFIGS = {  # name: (head_dim, rope_theta, scaling)
    "kPlain": (16, 10000.0, dict(rope_type="default")),
    "kLinear": (16, 10000.0, dict(rope_type="linear", factor=4.0)),
    "kLlama31": (32, 500000.0, dict(LLAMA3, factor=8.0)),
    "kLlama32": (32, 500000.0, dict(LLAMA3, factor=32.0)),
    "kYarn": (32, 1000000.0, dict(YARN, factor=4.0)),
    "kYarnExact": (32, 10000.0, dict(YARN, factor=16.0, beta_fast=16.0, beta_slow=2.0,
                                     truncate=False, attention_factor=1.25)),
    "kYarnMscale": (32, 10000.0, dict(YARN, factor=40.0, mscale=1.0, mscale_all_dim=0.5)),
    "kYarnStep": (32, 10000.0, dict(YARN, factor=4.0, original_max_position_embeddings=6)),
}


def array(name, values):
    numbers = ", ".join(f"{value:#.9g}f" for value in values.flatten().tolist())
    return [f"    .{name} = {{", textwrap.indent(textwrap.fill(numbers, 90), " " * 8), "    },"]


def main():
    transformers.logging.set_verbosity_error()  # factors that no context length implies
    lines = ["// Written by scripts/make_rotary_goldens.py with transformers "
             f"{transformers.__version__} and PyTorch {torch.__version__.split('+')[0]}.",
             "#pragma once", "", "#include <vector>", "", "namespace strata::models::goldens {", "",
             "// cos and sin: a row for each position.",
             "struct Rotary {", "  float attention_factor;", "  std::vector<float> frequencies;",
             "  std::vector<float> cos;", "  std::vector<float> sin;", "};", "",
             "inline constexpr int kRotaryPositions[] = {" + ", ".join(map(str, POSITIONS)) + "};",
             "", "// clang-format off"]
    for name, (head_dim, theta, scaling) in CONFIGS.items():
        config = transformers.LlamaConfig(
            hidden_size=2 * head_dim, num_attention_heads=2, head_dim=head_dim,
            max_position_embeddings=131072, rope_parameters=dict(scaling, rope_theta=theta))
        rotary = LlamaRotaryEmbedding(config)
        cos, sin = rotary(torch.zeros(1), torch.tensor([POSITIONS]))
        half = head_dim // 2
        lines += ["", f"inline const Rotary {name} = {{",
                  f"    .attention_factor = {float(rotary.attention_scaling)!r}f,"]
        lines += array("frequencies", rotary.inv_freq)
        lines += array("cos", cos[0, :, :half]) + array("sin", sin[0, :, :half]) + ["};"]
    lines += ["// clang-format on", "", "}  // namespace strata::models::goldens"]
    root = pathlib.Path(__file__).resolve().parent.parent
    (root / "tests/models/rotary_goldens.h").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

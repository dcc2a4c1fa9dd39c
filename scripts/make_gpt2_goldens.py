#!/usr/bin/env python3
"""Writes tests/golden/gpt2_tiny.{json,bin}: a tiny GPT-2 in PyTorch, as an oracle for the tests.

The model is written here from the paper's description (no Hugging Face code), in float64, so that
the numbers are exact to well beyond what the tests compare. Needs torch and numpy; neither the build
nor the tests do. The output depends on the constants below and on nothing else; see
tests/golden/README.md for what it holds.

    python scripts/make_gpt2_goldens.py [FOLDER]
"""

import json
import math
import pathlib
import sys

import numpy as np
import torch

# 36 channels in 3 heads: nothing is a multiple of a vector's width, and units have gaps.
LAYERS, HIDDEN, HEADS, CONTEXT, VOCABULARY = 2, 36, 3, 24, 61
SEQUENCES, TOKENS, STEPS = 3, 17, 10
IGNORED, IGNORED_PLACE = -1, 7
LEARNING_RATE, BETAS, EPSILON, WEIGHT_DECAY, CLIP_NORM = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0
SEED = 20240607


def make_weights(rng):
    """Name -> float64 array, every value exact in bfloat16. Larger than GPT-2's initial values, so
    that attention and softmax are far from uniform and every gradient matters."""

    def normal(*shape, std, mean=0.0):
        values = torch.from_numpy(rng.normal(mean, std, shape))
        return values.to(torch.bfloat16).to(torch.float64)

    weights = {
        "wte.weight": normal(VOCABULARY, HIDDEN, std=0.25),
        "wpe.weight": normal(CONTEXT, HIDDEN, std=0.2),
    }

    def add_norm(name):
        weights[f"{name}.weight"] = normal(HIDDEN, std=0.1, mean=1.0)
        weights[f"{name}.bias"] = normal(HIDDEN, std=0.1)

    def add_linear(name, outputs, inputs):
        weights[f"{name}.weight"] = normal(outputs, inputs, std=1.0 / math.sqrt(inputs))
        weights[f"{name}.bias"] = normal(outputs, std=0.1)

    for layer in range(LAYERS):
        add_norm(f"h.{layer}.ln_1")
        add_linear(f"h.{layer}.attn.c_attn", 3 * HIDDEN, HIDDEN)
        add_linear(f"h.{layer}.attn.c_proj", HIDDEN, HIDDEN)
        add_norm(f"h.{layer}.ln_2")
        add_linear(f"h.{layer}.mlp.c_fc", 4 * HIDDEN, HIDDEN)
        add_linear(f"h.{layer}.mlp.c_proj", HIDDEN, 4 * HIDDEN)
    add_norm("ln_f")
    return weights


def forward(w, tokens):
    """Logits (B, T, V). Linear weights are (out, in)."""

    def norm(name, x):
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(name, x):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def attention(qkv):
        batch, length, _ = qkv.shape
        q, k, v = (
            part.reshape(batch, length, HEADS, HIDDEN // HEADS).transpose(1, 2)
            for part in qkv.split(HIDDEN, dim=-1)
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(HIDDEN // HEADS)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        probabilities = scores.masked_fill(future, -math.inf).softmax(-1)
        return (probabilities @ v).transpose(1, 2).reshape(batch, length, HIDDEN)

    def gelu(x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    x = w["wte.weight"][tokens] + w["wpe.weight"][: tokens.shape[1]]
    for layer in range(LAYERS):
        name = f"h.{layer}"
        qkv = linear(f"{name}.attn.c_attn", norm(f"{name}.ln_1", x))
        x = x + linear(f"{name}.attn.c_proj", attention(qkv))
        hidden = gelu(linear(f"{name}.mlp.c_fc", norm(f"{name}.ln_2", x)))
        x = x + linear(f"{name}.mlp.c_proj", hidden)
    return norm("ln_f", x) @ w["wte.weight"].T


def mean_loss(logits, targets):
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, VOCABULARY), targets.reshape(-1), ignore_index=IGNORED
    )


def make_batches(rng, steps=STEPS):
    """Per step (tokens, targets), each (B, T)."""
    batches = []
    for _ in range(steps):
        text = torch.from_numpy(rng.integers(0, VOCABULARY, (SEQUENCES, TOKENS + 1)))
        batches.append((text[:, :-1].clone(), text[:, 1:].clone()))
    return batches


def train(initial, batches, compute_dtype, forward=forward):
    """AdamW on float64 masters. The gradient of each step is taken at the masters rounded to
    compute_dtype (the model itself runs in float64, or as `forward` does). Returns per-step losses,
    gradient norms before clipping, the masters after each step, and how sensitive they are in the
    end."""
    masters = {name: value.clone().requires_grad_() for name, value in initial.items()}
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in masters.values() if p.dim() == 2], "weight_decay": WEIGHT_DECAY},
            {"params": [p for p in masters.values() if p.dim() == 1], "weight_decay": 0.0},
        ],
        lr=LEARNING_RATE,
        betas=BETAS,
        eps=EPSILON,
    )
    losses, norms, after = [], [], []
    sensitivity = Sensitivity(masters)
    for tokens, targets in batches:
        working = {
            name: p.detach().to(compute_dtype).to(torch.float64).requires_grad_()
            for name, p in masters.items()
        }
        loss = mean_loss(forward(working, tokens), targets)
        loss.backward()
        for name, p in masters.items():
            p.grad = working[name].grad.clone()
        norms.append(torch.nn.utils.clip_grad_norm_(masters.values(), CLIP_NORM).item())
        optimizer.step()
        sensitivity.add_step(optimizer)
        losses.append(loss.item())
        after.append({name: p.detach().clone() for name, p in masters.items()})
    return losses, norms, after, sensitivity.sums


class Sensitivity:
    """To first order, how far a master can move, in learning rates, when every gradient entry errs by
    a fraction r of its tensor's largest entry G: by r times sums[name].

    An update is u = m / v with m a weighted mean of the gradients and v their weighted root mean
    square; both err by at most r G, so u errs by r G (1 + |u|) / v. Summed over the steps."""

    def __init__(self, masters):
        self.masters = masters
        self.largest = dict.fromkeys(masters, 0.0)
        self.sums = {name: torch.zeros_like(p) for name, p in masters.items()}

    def add_step(self, optimizer):
        for name, p in self.masters.items():
            state = optimizer.state[p]
            m = state["exp_avg"] / (1 - BETAS[0] ** state["step"])
            v = (state["exp_avg_sq"] / (1 - BETAS[1] ** state["step"])).sqrt() + EPSILON
            self.largest[name] = max(self.largest[name], p.grad.abs().max().item())
            self.sums[name] += (self.largest[name] * (1 + (m / v).abs()) / v).detach()


class Writer:
    """One JSON index and one binary file, tensor after tensor without gaps."""

    def __init__(self):
        self.index = {}
        self.data = bytearray()

    def put(self, name, values, dtype="f32"):
        array = np.ascontiguousarray(np.asarray(values), dtype={"f32": "<f4", "i32": "<i4"}[dtype])
        self.index[name] = {"dtype": dtype, "shape": list(array.shape), "offset": len(self.data)}
        self.data += array.tobytes()

    def write(self, folder, stem, header):
        lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in self.index.items()]
        tensors = "{\n" + ",\n".join(lines) + "\n}"
        fields = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in header.items()]
        text = "{\n" + ",\n".join(fields + [f'"tensors": {tensors}']) + "\n}\n"
        (folder / f"{stem}.json").write_text(text)
        (folder / f"{stem}.bin").write_bytes(self.data)


def put_training(writer, weights, batches, *logits):
    """Losses, gradient norms and weights of a step for each batch, in both precisions."""
    for precision, dtype in (("f32", torch.float64), ("bf16", torch.bfloat16)):
        losses, norms, after, sensitivity = train(weights, batches, dtype, *logits)
        print(precision, "losses", np.round(losses, 4), "gradient norms", np.round(norms, 3))
        writer.put(f"{precision}/losses", losses)
        writer.put(f"{precision}/gradient_norms", norms)
        # The first step is the same in both: the initial weights are exact in bfloat16.
        steps = (1, len(batches)) if precision == "f32" else (len(batches),)
        for step in steps:
            for name, value in after[step - 1].items():
                writer.put(f"{precision}/after_{step}/{name}", value)
        if precision == "f32":
            for name, value in sensitivity.items():
                writer.put(f"sensitivity/{name}", value)


def main():
    folder = pathlib.Path(
        sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "tests/golden"
    )
    torch.set_num_threads(1)
    rng = np.random.default_rng(SEED)
    weights = make_weights(rng)
    batches = make_batches(rng)

    leaves = {name: value.clone().requires_grad_() for name, value in weights.items()}
    tokens, targets = batches[0]
    some_targets = targets.clone()
    some_targets.view(-1)[IGNORED_PLACE] = IGNORED
    logits = forward(leaves, tokens)
    loss = mean_loss(logits, some_targets)
    loss.backward()
    gradients = {name: leaf.grad for name, leaf in leaves.items()}
    norm = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients.values()))

    writer = Writer()
    for name, value in weights.items():
        writer.put(f"weights/{name}", value)
    writer.put("tokens", torch.stack([batch[0] for batch in batches]), "i32")
    writer.put("targets", torch.stack([batch[1] for batch in batches]), "i32")
    writer.put("logits", logits.detach())
    writer.put("some_targets", some_targets, "i32")
    writer.put("loss", [loss.item()])
    writer.put("gradient_norm", [norm])
    for name, gradient in gradients.items():
        writer.put(f"gradients/{name}", gradient)
    put_training(writer, weights, batches)

    config = {
        "layers": LAYERS,
        "hidden": HIDDEN,
        "heads": HEADS,
        "context": CONTEXT,
        "vocabulary": VOCABULARY,
    }
    adamw = {
        "learning_rate": LEARNING_RATE,
        "beta1": BETAS[0],
        "beta2": BETAS[1],
        "epsilon": EPSILON,
        "weight_decay": WEIGHT_DECAY,
        "clip_norm": CLIP_NORM,
    }
    writer.write(folder, "gpt2_tiny", {"torch": torch.__version__, "config": config, "adamw": adamw})


if __name__ == "__main__":
    main()

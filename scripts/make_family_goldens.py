#!/usr/bin/env python3
"""Writes tests/golden/STEM_tiny.{json,bin}, STEM llama, llama_untied, mistral, qwen2 and qwen3, and
llama_training.*: tiny models of each family as transformers runs them, in f32 with eager attention,
as an oracle for the tests.

Needs torch, transformers and numpy; neither the build nor the tests do. The output depends on the
constants below and on the versions of those packages; see tests/golden/README.md for what it holds.

    python scripts/make_family_goldens.py [FOLDER]
"""

import json
import math
import pathlib
import sys

import numpy as np
import torch
import transformers
from make_gpt2_goldens import (
    BETAS,
    CLIP_NORM,
    EPSILON,
    IGNORED,
    IGNORED_PLACE,
    LEARNING_RATE,
    TOKENS,
    VOCABULARY,
    WEIGHT_DECAY,
    Writer,
    make_batches,
    mean_loss,
    put_training,
)

TRAINING_STEPS = 5
# Where documents begin in each sequence of the packed batch: none, one or several within it, one of
# a single token, one at the very end.
DOCUMENT_STARTS = [[0], [0, 5, 6], [0, 9, 16]]
SEED = 20241130

# Small bases and contexts, so that the angles of every frequency differ within 17 tokens, and some
# frequencies are kept, some mixed and some scaled.
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 50.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
LINEAR = {"rope_type": "linear", "rope_theta": 100.0, "factor": 2.0}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 100.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "beta_fast": 2.0,
    "beta_slow": 0.25,
}


def plain(theta):
    return {"rope_type": "default", "rope_theta": theta}


def make_config(kind, heads, kv_heads, rotary, tied, hidden=36, intermediate=52, **more):
    return kind(
        num_hidden_layers=2,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=intermediate,
        vocab_size=VOCABULARY,
        max_position_embeddings=64,
        rope_parameters=rotary,
        tie_word_embeddings=tied,
        attn_implementation="eager",
        bos_token_id=None,
        eos_token_id=None,
        **more,
    )


def family_configs():
    """By stem. Nothing is a multiple of a vector's width, and units have gaps."""
    llama, mistral = transformers.LlamaConfig, transformers.MistralConfig
    qwen2, qwen3 = transformers.Qwen2Config, transformers.Qwen3Config
    return {
        "llama_tiny": make_config(llama, 6, 2, LLAMA3, tied=True, rms_norm_eps=1e-5),
        "llama_untied_tiny": make_config(llama, 3, 3, LINEAR, tied=False, rms_norm_eps=1e-6),
        "mistral_tiny": make_config(
            mistral, 6, 3, plain(100.0), tied=False, intermediate=28, head_dim=8, sliding_window=5
        ),
        "qwen2_tiny": make_config(qwen2, 3, 1, YARN, tied=True),
        "qwen3_tiny": make_config(qwen3, 6, 2, plain(1000.0), tied=False, head_dim=8),
    }


def training_config():
    """What `llama:layers=2,hidden=24,heads=4,kv-heads=2,intermediate=40,…` says, untied."""
    return make_config(
        transformers.LlamaConfig,
        4,
        2,
        plain(10000.0),
        tied=False,
        hidden=24,
        intermediate=40,
        rms_norm_eps=1e-5,
    )


def make_weights(config, rng):
    """Name without "model." -> float64 array, every value exact in bfloat16. Of such a scale that
    attention and softmax are far from uniform and every gradient matters."""
    shapes = transformers.AutoModelForCausalLM.from_config(config).named_parameters()
    weights = {}
    for name, parameter in shapes:
        shape = tuple(parameter.shape)
        if name.endswith("norm.weight"):
            values = rng.normal(1.0, 0.2, shape)
        elif name.endswith("bias"):
            values = rng.normal(0.0, 0.1, shape)
        elif "embed_tokens" in name:
            values = rng.normal(0.0, 0.25, shape)
        else:
            values = rng.normal(0.0, 1.0 / math.sqrt(shape[1]), shape)
        rounded = torch.from_numpy(values).to(torch.bfloat16).to(torch.float64)
        weights[name.removeprefix("model.")] = rounded
    return weights


class Oracle:
    """transformers' model of `config`, as a function of its weights."""

    def __init__(self, config):
        self.model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
        self.names = [name for name, _ in self.model.named_parameters()]

    def logits(self, weights, tokens, **inputs):
        """(B, T, V), float64 of f32."""
        named = {name: weights[name.removeprefix("model.")].float() for name in self.names}
        inputs = {"input_ids": tokens, "use_cache": False, **inputs}
        return torch.func.functional_call(self.model, named, kwargs=inputs).logits.double()


def packed_inputs(window):
    """(document starts (B, T), the inputs that tell transformers of them): positions restart, and a
    token sees those of its document, the last `window` of them."""
    places = torch.arange(TOKENS)
    starts = torch.tensor(
        [[max(s for s in row if s <= t) for t in range(TOKENS)] for row in DOCUMENT_STARTS]
    )
    query, key = places[None, :, None], places[None, None, :]
    seen = (key <= query) & (key >= starts[:, :, None]) & (key > query - window)
    mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    return starts, {"position_ids": places - starts, "attention_mask": mask[:, None]}


def put_evaluation(writer, oracle, weights, tokens, targets, prefix="", **inputs):
    """Logits, loss and the gradient of every weight."""
    leaves = {name: value.clone().requires_grad_() for name, value in weights.items()}
    logits = oracle.logits(leaves, tokens, **inputs)
    loss = mean_loss(logits, targets)
    loss.backward()
    norm = math.sqrt(sum(float((leaf.grad**2).sum()) for leaf in leaves.values()))
    writer.put(f"{prefix}logits", logits.detach())
    writer.put(f"{prefix}loss", [loss.item()])
    writer.put(f"{prefix}gradient_norm", [norm])
    for name, leaf in leaves.items():
        writer.put(f"{prefix}gradients/{name}", leaf.grad)
    print(f"{prefix}loss {loss.item():.4f}, gradient norm {norm:.4f}, logits {logits.std():.2f}")


def header(config, **more):
    architecture = type(transformers.AutoModelForCausalLM.from_config(config)).__name__
    config.architectures = [architecture]
    fields = {name: value for name, value in config.to_dict().items() if value is not None}
    return {"torch": torch.__version__, "config": fields, **more}


def put_weights(writer, weights):
    for name, value in weights.items():
        writer.put(f"weights/{name}", value)


def write_family(folder, stem, config, rng):
    print(stem)
    weights = make_weights(config, rng)
    [(tokens, targets)] = make_batches(rng, steps=1)
    targets.view(-1)[IGNORED_PLACE] = IGNORED
    oracle = Oracle(config)
    writer = Writer()
    put_weights(writer, weights)
    writer.put("tokens", tokens, "i32")
    writer.put("some_targets", targets, "i32")
    put_evaluation(writer, oracle, weights, tokens, targets)
    if config.model_type == "mistral":
        starts, inputs = packed_inputs(config.sliding_window)
        writer.put("packed/document_starts", starts, "i32")
        put_evaluation(writer, oracle, weights, tokens, targets, "packed/", **inputs)
    writer.write(folder, stem, header(config))


def write_training(folder, stem, config, rng):
    print(stem)
    weights = make_weights(config, rng)
    batches = make_batches(rng, TRAINING_STEPS)
    oracle = Oracle(config)
    writer = Writer()
    put_weights(writer, weights)
    writer.put("tokens", torch.stack([batch[0] for batch in batches]), "i32")
    writer.put("targets", torch.stack([batch[1] for batch in batches]), "i32")
    writer.put("logits", oracle.logits(weights, batches[0][0]).detach())
    put_training(writer, weights, batches, oracle.logits)
    adamw = {
        "learning_rate": LEARNING_RATE,
        "beta1": BETAS[0],
        "beta2": BETAS[1],
        "epsilon": EPSILON,
        "weight_decay": WEIGHT_DECAY,
        "clip_norm": CLIP_NORM,
    }
    writer.write(folder, stem, header(config, adamw=adamw))


def main():
    folder = pathlib.Path(
        sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "tests/golden"
    )
    torch.set_num_threads(1)
    rng = np.random.default_rng(SEED)
    for stem, config in family_configs().items():
        write_family(folder, stem, config, rng)
    write_training(folder, "llama_training", training_config(), rng)


if __name__ == "__main__":
    main()

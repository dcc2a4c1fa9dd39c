#!/usr/bin/env python3
"""Writes tests/golden/hf_{gpt2,llama,mistral,qwen2,qwen3}_tiny: a tiny random model of each family
as transformers saves it, and its loss.

Needs torch and transformers; neither the build nor the tests do. The output depends on the
constants below and on the versions; tests/golden/README.md says what it holds.

    python scripts/make_hf_goldens.py [FOLDER [FAMILY...]]
"""

import json
import pathlib
import sys

import torch
import transformers

TOKENS, SEQUENCES, SEED = 24, 6, 20240701
TEXT = "Weights come from elsewhere, and so does the number that says whether they came whole. " * 2

COMMON = {"vocab_size": 256, "bos_token_id": None, "eos_token_id": None, "initializer_range": 0.2}
ROTARY = COMMON | {
    "max_position_embeddings": 32,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 50.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}

# The configuration of each, and how it is saved.
FAMILIES = {
    "gpt2": (
        transformers.GPT2Config(n_positions=32, n_embd=36, n_layer=2, n_head=3, **COMMON),
        {},
    ),
    "llama": (  # a head of its own, in several files
        transformers.LlamaConfig(rope_parameters=LLAMA3, **ROTARY),
        {"max_shard_size": "40KB"},
    ),
    "mistral": (  # heads that are wider than the model, a window within the sequence
        transformers.MistralConfig(head_dim=12, sliding_window=7, **ROTARY),
        {},
    ),
    "qwen2": (transformers.Qwen2Config(tie_word_embeddings=True, **ROTARY), {}),
    "qwen3": (transformers.Qwen3Config(tie_word_embeddings=True, head_dim=16, **ROTARY), {}),
}


def mean_loss(model):
    ids = torch.tensor(list(TEXT.encode()[: SEQUENCES * TOKENS + 1]))
    inputs = ids[:-1].reshape(SEQUENCES, TOKENS)
    targets = ids[1:].reshape(SEQUENCES, TOKENS)
    with torch.no_grad():
        logits = model.double()(inputs).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()


def write_golden(folder, family):
    config, saving = FAMILIES[family]
    torch.manual_seed(SEED)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():  # norms and biases too are to count
        for _, tensor in model.named_parameters():
            if tensor.ndim == 1:
                tensor.add_(0.1 * torch.randn_like(tensor))
    model.save_pretrained(folder, **saving)
    text = TEXT.encode()[: SEQUENCES * TOKENS + 1].decode()
    golden = {"text": text, "tokens": TOKENS, "loss": mean_loss(model)}
    (folder / "golden.json").write_text(json.dumps(golden, indent=2) + "\n")
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 32}\n')


def main():
    default = pathlib.Path(__file__).parent.parent / "tests" / "golden"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    for family in sys.argv[2:] or FAMILIES:
        write_golden(folder / f"hf_{family}_tiny", family)


main()

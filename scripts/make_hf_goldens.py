#!/usr/bin/env python3
"""Writes tests/golden/hf_gpt2_tiny: a tiny random GPT-2 as transformers saves it, and its loss.

Needs torch and transformers; neither the build nor the tests do. The output depends on the
constants below and on the versions; tests/golden/README.md says what it holds.

    python scripts/make_hf_goldens.py [FOLDER]
"""

import json
import pathlib
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

TOKENS, SEQUENCES, SEED = 24, 6, 20240701
TEXT = "Weights come from elsewhere, and so does the number that says whether they came whole. " * 2


def main():
    default = pathlib.Path(__file__).parent.parent / "tests" / "golden"
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    folder = folder / "hf_gpt2_tiny"
    torch.manual_seed(SEED)
    config = GPT2Config(
        vocab_size=256, n_positions=32, n_embd=36, n_layer=2, n_head=3,
        bos_token_id=None, eos_token_id=None, initializer_range=0.2,
    )
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():  # norms and biases too are to count
        for name, tensor in model.named_parameters():
            if tensor.ndim == 1:
                tensor.add_(0.1 * torch.randn_like(tensor))
    model.save_pretrained(folder)

    text = TEXT.encode()[: SEQUENCES * TOKENS + 1]
    ids = torch.tensor(list(text))
    inputs = ids[:-1].reshape(SEQUENCES, TOKENS)
    targets = ids[1:].reshape(SEQUENCES, TOKENS)
    with torch.no_grad():
        logits = model.double()(inputs).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    golden = {"text": text.decode(), "tokens": TOKENS, "loss": loss.item()}
    (folder / "golden.json").write_text(json.dumps(golden, indent=2) + "\n")
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 32}\n')


main()

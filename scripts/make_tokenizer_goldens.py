#!/usr/bin/env python3
"""Writes tests/golden/tokenizers.json: vocabulary hashes and decoded texts of the tokenizers in
../shared/data as the packages xxhash and tokenizers give them, and bytes as Python decodes them.

Needs tokenizers and xxhash.
"""
import json
import pathlib
import random

import tokenizers
import xxhash

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data" / "tokenizers"
TEXTS = ["", " ", "  two spaces first", "Once upon a time,\nthere was a café.\t“Öl” – 3 €",
         "日本語と中文 и русский", "👩‍👩‍👧 🏳️‍🌈 𝄞 ~", "e\u0301 \u00a0 \u2028 end "]
IDS_OF_A_HASH = 1000


def vocabulary_hash(file):
    tokens = {i: token for token, i in file["model"]["vocab"].items()}
    tokens |= {added["id"]: added["content"] for added in file["added_tokens"]}
    text = "".join(f"{i} {tokens[i]}\n" for i in sorted(tokens))
    return "xxh3-128:" + xxhash.xxh3_128_hexdigest(text.encode())


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def decode(tokenizer, ids, skip):
    """As tokenizers does, but for faulty runs of <0xXX>: those as Python decodes bytes."""
    text = tokenizer.decode(ids, skip_special_tokens=skip)
    if type(tokenizer.decoder).__name__ == "ByteLevel":
        return text
    special = {i for i, added in tokenizer.get_added_tokens_decoder().items() if added.special}
    pieces = [tokenizer.id_to_token(i) for i in ids if not (skip and i in special)]
    data = b"".join(bytes([int(piece[3:5], 16)]) if piece.startswith("<0x")
                    else piece.replace("▁", " ").encode() for piece in pieces)
    ours = data.decode(errors="replace").removeprefix(" ")
    assert "\ufffd" in text or text == ours, (text, ours)
    return ours


def goldens_of(name, rng):
    path = DATA / name / "tokenizer.json"
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    size = tokenizer.get_vocab_size()
    sequences = [tokenizer.encode(text).ids for text in TEXTS]
    sequences += [[rng.randrange(size) for _ in range(rng.randrange(1, 40))] for _ in range(40)]
    every = [f"{i} {decode(tokenizer, [i], False)}\n" for i in range(size)]
    return {
        "vocabulary_hash": vocabulary_hash(json.loads(path.read_text())),
        "size": size,
        "every_id": [fnv1a("".join(every[i:i + IDS_OF_A_HASH]))
                     for i in range(0, size, IDS_OF_A_HASH)],
        "sequences": [{"ids": ids, "text": decode(tokenizer, ids, True),
                       "with_special": decode(tokenizer, ids, False)} for ids in sequences],
    }


def utf8_goldens(rng):
    """Bytes that are UTF-8 in part: those at the limits of what may follow what."""
    interesting = bytes.fromhex(
        "41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f4 f5 ff")
    samples = [bytes(rng.choice(interesting) for _ in range(rng.randrange(1, 9)))
               for _ in range(400)]
    return [[list(sample), sample.decode(errors="replace")] for sample in samples]


def main():
    rng = random.Random(6)
    golden = {
        "written_by": f"scripts/make_tokenizer_goldens.py, tokenizers {tokenizers.__version__}",
        "tokenizers": {name: goldens_of(name, rng) for name in ["gpt2", "tok512"]},
        "utf8": utf8_goldens(rng),
    }
    path = ROOT / "tests" / "golden" / "tokenizers.json"
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

"""Writes NAME.bin (llm.c's format) and its companions NAME.mask, NAME.docs and NAME.json.

Everything is written to temporary names as it comes, so memory does not grow with the data, and
renamed at the end; NAME.bin last, so that where it exists, it and what is beside it are whole.
They replace files that were written by this, and no others.
"""

import array
import contextlib
import json
import os
import pathlib
import struct
import sys
from collections.abc import Sequence
from typing import Self

from .errors import UsageError

TOKENS_MAX = 2**31 - 1  # llm.c counts them in an int32
HEADER_INTS = 256
# The type of the tokens: how array calls it, llm.c's magic and version.
UINT16 = ("H", 20240520, 1)
UINT32 = ("I", 20240801, 7)
DOCUMENTS_MAGIC = b"STRATADC"
FORMAT = "strata tokens"
BEGINNING_BYTES = 4096
SOURCES_MAX = 16  # named in NAME.json, of however many


def little_endian(typecode: str, values: Sequence[int]) -> bytes:
    items = array.array(typecode, values)
    if sys.byteorder == "big":
        items.byteswap()
    return items.tobytes()


def is_ours(suffix: str, beginning: bytes) -> bool:
    """Whether a file of this suffix may be one of an earlier run of this."""
    if suffix == ".bin":
        return beginning[:8] in (struct.pack("<2i", *kind[1:]) for kind in (UINT16, UINT32))
    if suffix == ".mask":
        return not beginning.strip(b"\0\1")
    if suffix == ".docs":
        return beginning.startswith(DOCUMENTS_MAGIC)
    return f'"format": "{FORMAT}"'.encode() in beginning


class TokenFile:
    """A context manager: publish() keeps the files, leaving without it removes them."""

    def __init__(self, path: pathlib.Path, vocabulary: int) -> None:
        """`path`: NAME.bin, or NAME; its folder is made if it is not there."""
        if path.name in ("", ".."):
            raise UsageError(f"--out {path}: is a folder; add a name: --out {path / 'train'}")
        self.path = path if path.suffix == ".bin" else path.with_name(path.name + ".bin")
        self._require_free_names()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._typecode, self._magic, self._version = UINT16 if vocabulary <= 2**16 else UINT32
        self._files = {  # closed by __exit__
            suffix: open(self._temporary(suffix), "wb")  # noqa: SIM115
            for suffix in (".bin", ".mask", ".docs")
        }
        self._files[".bin"].write(bytes(4 * HEADER_INTS))
        self._files[".docs"].write(bytes(16))
        self.tokens = 0
        self.documents = 0
        self.trained_tokens = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for suffix, file in self._files.items():
            file.close()
            self._temporary(suffix).unlink(missing_ok=True)
        self._temporary(".json").unlink(missing_ok=True)

    def begin_document(self) -> None:
        self._files[".docs"].write(struct.pack("<Q", self.tokens))
        self.documents += 1

    def write(self, ids: Sequence[int], trained: bytes) -> None:
        """`trained`: for each of the ids 1 where there is a loss on it, or 0."""
        self._files[".bin"].write(little_endian(self._typecode, ids))
        self._files[".mask"].write(trained)
        self.tokens += len(ids)
        self.trained_tokens += trained.count(1)
        if self.tokens > TOKENS_MAX:
            raise UsageError(
                f"{self.path}: more than {TOKENS_MAX} tokens, the most that a file of llm.c's "
                "format may have: divide the input and give --data all the files"
            )

    def publish(self, tokenizer: str, sources: Sequence[pathlib.Path]) -> None:
        """Finishes and renames the files. `tokenizer`: the hash of its vocabulary."""
        if self.tokens == 0:
            raise UsageError(f"{self.path}: there is nothing to write: the input has no tokens")
        self._finish(".bin", struct.pack("<3i", self._magic, self._version, self.tokens))
        self._finish(".docs", DOCUMENTS_MAGIC + struct.pack("<Q", self.documents))
        self._finish(".mask", b"")
        self._temporary(".json").write_text(self._description(tokenizer, sources), encoding="utf-8")
        kept = {
            ".docs": self.documents > 0,
            ".mask": self.trained_tokens < self.tokens,
            ".json": True,
            ".bin": True,
        }
        self.path.unlink(missing_ok=True)
        for suffix, keep in kept.items():
            if keep:
                self._temporary(suffix).rename(self.path.with_suffix(suffix))
            else:  # one of an earlier file of this name
                self.path.with_suffix(suffix).unlink(missing_ok=True)

    def _require_free_names(self) -> None:
        for suffix in (".bin", ".mask", ".docs", ".json"):
            path = self.path.with_suffix(suffix)
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                if not is_ours(suffix, file.read(BEGINNING_BYTES)):
                    raise UsageError(
                        f"{path} would be replaced, and was not made by this program: give "
                        "another --out"
                    )

    def _description(self, tokenizer: str, sources: Sequence[pathlib.Path]) -> str:
        named = sources[:SOURCES_MAX]
        contents = {
            "format": FORMAT,
            "version": 1,
            "tokenizer": tokenizer,
            "tokens": self.tokens,
            "documents": self.documents,
            "trained_tokens": self.trained_tokens,
            "source_files": len(sources),
            "sources": [os.fsencode(path).decode(errors="replace") for path in named],
        }
        return json.dumps(contents, indent=1, ensure_ascii=False) + "\n"

    def _finish(self, suffix: str, beginning: bytes) -> None:
        with contextlib.closing(self._files[suffix]) as file:
            file.seek(0)
            file.write(beginning)

    def _temporary(self, suffix: str) -> pathlib.Path:
        return self.path.with_name(f".{self.path.stem}{suffix}.partial")

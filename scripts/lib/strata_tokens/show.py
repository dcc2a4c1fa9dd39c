"""Samples for a terminal: what is trained in green, the rest dim."""

import itertools
from collections.abc import Callable, Sequence

from .masking import Document

TRAINED, UNTRAINED, PLAIN = "\033[32m", "\033[2m", "\033[0m"


def coloured(document: Document, decode: Callable[[Sequence[int]], str]) -> str:
    position = 0
    parts = []
    for trained, run in itertools.groupby(document.trained):
        count = len(list(run))
        text = decode(document.ids[position : position + count])
        parts.append(f"{TRAINED if trained else UNTRAINED}{text}{PLAIN}")
        position += count
    return "".join(parts)

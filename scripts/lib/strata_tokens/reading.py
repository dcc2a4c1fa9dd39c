"""The lines of JSON lines files, those that cannot be used among them, and pieces of plain text."""

import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import TypeVar

from .errors import LineError, UsageError

Item = TypeVar("Item")

PIECE_CHARACTERS = 2**20
PIECE_CHARACTERS_MAX = 2**24


class BadLines:
    """Counts and reports the lines that cannot be used: FILE:LINE: what is wrong."""

    def __init__(self, errors_max: int) -> None:
        self.count = 0
        self._errors_max = errors_max

    def add(self, path: pathlib.Path, line: int, error: LineError) -> None:
        self.count += 1
        print(f"{path}:{line}: {error}", file=sys.stderr)
        if self.count == self._errors_max:
            raise UsageError(
                f"{self.count} lines cannot be used, as many as --max-errors allows: nothing is written"
            )


def usable_lines(
    path: pathlib.Path, lines: range, use: Callable[[bytes], Item], bad: BadLines
) -> Iterator[Item]:
    """What `use` makes of each of the lines (numbered from 1); LineErrors go to `bad`."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if number >= lines.stop:
                return
            if number < lines.start:
                continue
            try:
                yield use(line)
            except LineError as error:
                bad.add(path, number, error)


def pieces(path: pathlib.Path) -> Iterator[str]:
    """A text file in pieces of about PIECE_CHARACTERS. They end after a line, where that line has
    text and the next begins with some: no token of the usual tokenizers spans such a place."""
    piece: list[str] = []
    characters = 0
    try:
        with path.open(encoding="utf-8", newline="") as file:
            while line := file.readline(PIECE_CHARACTERS):
                at_boundary = ends_a_line_of_text(piece) and not line[0].isspace()
                if characters >= (PIECE_CHARACTERS if at_boundary else PIECE_CHARACTERS_MAX):
                    yield "".join(piece)
                    piece, characters = [], 0
                piece.append(line)
                characters += len(line)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8: {error.reason}") from error
    if piece:
        yield "".join(piece)


def ends_a_line_of_text(piece: list[str]) -> bool:
    return bool(piece) and piece[-1].endswith("\n") and not piece[-1][-2:].isspace()

"""Lines of JSON and rows of parquet files, those that cannot be used among them; pieces of text."""

import itertools
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from .errors import LineError, UsageError

Row = TypeVar("Row")
Item = TypeVar("Item")

PIECE_CHARACTERS = 2**20
PIECE_CHARACTERS_MAX = 2**24
CONTEXT_CHARACTERS = 256  # on both sides of the end of a piece; no token depends on more
BOUNDARY_TRIES = 256  # places of a block that may be one
BOM = b"\xef\xbb\xbf"


def count_text(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


class LeftOut:
    """Counts the lines that nothing is made of: empty ones, and those that cannot be used, which
    are reported too: FILE:LINE: what is wrong."""

    def __init__(self, errors_max: int) -> None:
        self.bad = 0
        self.empty = 0
        self._errors_max = errors_max

    def add_bad(self, path: pathlib.Path, line: int, error: LineError) -> None:
        self.bad += 1
        print(f"{path}:{line}: {error}", file=sys.stderr)
        if self.bad == self._errors_max:
            raise UsageError(
                f"{count_text(self.bad, 'line')} cannot be used, the most that --max-errors "
                "allows: nothing is written"
            )

    def __str__(self) -> str:
        bad, empty = count_text(self.bad, "bad line"), count_text(self.empty, "empty line")
        return f"left out {bad} and {empty}"


def usable_rows(
    path: pathlib.Path,
    rows: Iterable[Row],
    lines: range,
    use: Callable[[Row], Item],
    left_out: LeftOut,
) -> Iterator[Item]:
    """What `use` makes of each of the lines (numbered from 1) that is not empty (b"")."""
    for number, row in enumerate(rows, start=1):
        if number >= lines.stop:
            return
        if number < lines.start:
            continue
        if row == b"":
            left_out.empty += 1
            continue
        try:
            yield use(row)
        except LineError as error:
            left_out.add_bad(path, number, error)


def json_lines(path: pathlib.Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        if file.read(64).removeprefix(BOM).lstrip()[:1] == b"[":
            raise UsageError(f"{path} is one JSON array: make lines of it, with jq -c '.[]'")
        file.seek(0)
        yield file.readline().removeprefix(BOM).strip()
        for line in file:
            yield line.strip()


def parquet_rows(path: pathlib.Path) -> Iterator[dict]:
    """Rows without their columns that are null there."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise UsageError(f"{path}: reading it needs VENV/bin/pip install pyarrow") from error
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                for row in batch.to_pylist():
                    yield {key: value for key, value in row.items() if value is not None}
    except pyarrow.ArrowException as error:
        raise UsageError(f"{path}: {error}") from error


def pieces(path: pathlib.Path, parts: Callable[[str, str], bool]) -> Iterator[str]:
    """A text file in pieces of about PIECE_CHARACTERS, which end where `parts` says that no token
    is of the text before (first argument) and of that after it."""
    rest = ""
    lines = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            while block := file.read(PIECE_CHARACTERS):
                rest += block
                if (end := piece_end(rest, len(block), parts)) is not None:
                    yield rest[:end]
                    lines += rest.count("\n", 0, end)
                    rest = rest[end:]
                elif len(rest) >= PIECE_CHARACTERS_MAX:
                    raise UsageError(
                        f"{path}:{lines + 1}: in {len(rest)} characters from here on there is no "
                        "space or line end where tokens part: give them as JSON lines with 'text'"
                    )
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8: {error.reason}") from error
    if rest:
        yield rest


def piece_end(text: str, new: int, parts: Callable[[str, str], bool]) -> int | None:
    """The last place in the `new` last characters, beside a space, where a piece may end."""
    places = range(len(text) - CONTEXT_CHARACTERS, max(len(text) - new, 0), -1)
    beside_spaces = (i for i in places if text[i - 1].isspace() or text[i].isspace())
    for end in itertools.islice(beside_spaces, BOUNDARY_TRIES):
        before = text[max(end - CONTEXT_CHARACTERS, 0) : end]
        after = text[end : end + CONTEXT_CHARACTERS]
        if before.strip() and after.strip() and parts(before, after):
            return end
    return None

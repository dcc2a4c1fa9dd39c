"""The command line of scripts/tokenize.py."""

import argparse
import itertools
import pathlib
import re
import sys
from collections.abc import Iterator

from .errors import UsageError
from .masking import Document, Rules, Train, document_of
from .reading import LeftOut, count_text, json_lines, parquet_rows, pieces, usable_rows
from .records import Record, parse_line, record_of
from .show import coloured
from .token_file import TokenFile
from .tokenizer_folder import TokenizerFolder

TEXT_BATCH_PIECES = 16  # encoded at once, on all cores
ALL_LINES = range(1, sys.maxsize)
RECORDS = (".jsonl", ".ndjson", ".json", ".parquet")
TABLES = (".csv", ".tsv", ".xlsx", ".arrow", ".feather")
ARCHIVES = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip", ".7z", ".tar", ".tgz")


def parse_lines(text: str) -> range:
    match = re.fullmatch(r"(\d*):(\d*)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is not FIRST:LAST, such as 1:1200 or 1201:")
    first, last = match.groups()
    lines = range(int(first or 1), int(last) + 1 if last else sys.maxsize)
    if not 1 <= lines.start < lines.stop:
        raise argparse.ArgumentTypeError(f"'{text}' has no lines: they are numbered from 1")
    return lines


def parse_template(text: str) -> str:
    if text.count("{prompt}") != 1:
        raise argparse.ArgumentTypeError(f"'{text}' does not have {{prompt}} in it, once")
    return text.replace("\\n", "\n").replace("\\t", "\t")


def parse_arguments(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("input", nargs="+", type=pathlib.Path, help="JSON lines (.jsonl), parquet or text files")
    add(
        "--tokenizer",
        required=True,
        metavar="MODEL",
        help="the model: its folder, a run's, or org/name in the local Hugging Face cache",
    )
    add(
        "--out",
        required=True,
        type=pathlib.Path,
        metavar="NAME",
        help="NAME.bin and what lies beside it are written",
    )
    add(
        "--lines",
        type=parse_lines,
        default=ALL_LINES,
        metavar="FIRST:LAST",
        help="of each file these lines or rows, numbered from 1",
    )
    add(
        "--template",
        type=parse_template,
        default="{prompt}\n",
        help=r"what a prompt becomes; '{prompt}\n' if not given",
    )
    add(
        "--as-chat",
        action="store_true",
        help="write prompts and completions with the chat template",
    )
    trained = parser.add_mutually_exclusive_group()
    trained.add_argument(
        "--last-turn",
        dest="train",
        action="store_const",
        const=Train.LAST_ANSWER,
        default=Train.ANSWERS,
        help="of a conversation train the assistant's last turn alone",
    )
    trained.add_argument(
        "--no-mask",
        dest="train",
        action="store_const",
        const=Train.EVERYTHING,
        help="train prompts and the other turns too",
    )
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument(
        "--eos",
        metavar="TOKEN",
        help="what ends texts and completions, instead of the token that the folder names",
    )
    ends.add_argument("--no-eos", action="store_true", help="nothing ends them")
    add("--skip-malformed", action="store_true", help="write the rest where lines cannot be used")
    add(
        "--max-errors",
        type=int,
        default=100,
        metavar="N",
        help="stop at the N-th line that cannot be used (100)",
    )
    add("--show", type=int, default=0, metavar="N", help="print the first N samples, coloured")
    return parser.parse_args()


def main(description: str) -> int:
    arguments = parse_arguments(description)
    try:
        return tokenize(arguments)
    except (UsageError, OSError) as error:
        print(f"tokenize: {error}", file=sys.stderr)
        return 1


def tokenize(arguments: argparse.Namespace) -> int:
    tokenizer = TokenizerFolder(arguments.tokenizer)
    rules = rules_of(arguments, tokenizer)
    left_out = LeftOut(arguments.max_errors)
    with TokenFile(arguments.out, tokenizer.size) as out:
        if all_have_records(arguments.input):
            documents = read_documents(arguments, tokenizer, rules, left_out)
            write_documents(documents, out, tokenizer, arguments.show)
        else:
            if arguments.lines is not ALL_LINES:
                raise UsageError("--lines is for JSON lines and parquet files")
            write_text(arguments.input, out, tokenizer, rules)
        if left_out.bad and not arguments.skip_malformed:
            raise UsageError(
                f"{count_text(left_out.bad, 'line')} cannot be used: nothing is written "
                "(--skip-malformed writes the others)"
            )
        out.publish(tokenizer.hash(), arguments.input)
    print(
        f"{out.path}: {out.tokens} tokens, {out.trained_tokens} of them trained, "
        f"{count_text(out.documents, 'document')}; {left_out}"
    )
    return 0


def rules_of(arguments: argparse.Namespace, tokenizer: TokenizerFolder) -> Rules:
    return Rules(
        template=arguments.template,
        end=None if arguments.no_eos else end_token(arguments, tokenizer),
        as_chat=arguments.as_chat,
        train=arguments.train,
    )


def end_token(arguments: argparse.Namespace, tokenizer: TokenizerFolder) -> int:
    if arguments.eos is not None:
        end = tokenizer.id_of(arguments.eos)
        if end is None:
            raise UsageError(f"--eos {arguments.eos}: {arguments.tokenizer} has no such token")
        return end
    if tokenizer.end is None:
        raise UsageError(
            f"{arguments.tokenizer} does not say which token ends a text (eos_token in "
            "tokenizer_config.json): give it with --eos, or --no-eos writes none"
        )
    return tokenizer.end


def all_have_records(paths: list[pathlib.Path]) -> bool:
    for path in paths:
        extension = path.suffix.lower()
        if extension in TABLES:
            raise UsageError(
                f"{path} is a table: make a .jsonl file of its rows (docs/fine-tuning.md)"
            )
        if extension in ARCHIVES:
            raise UsageError(f"{path} is compressed: unpack it")
    kinds = {path.suffix.lower() in RECORDS for path in paths}
    if len(kinds) > 1:
        raise UsageError("the input is text and records: make a file of tokens of each")
    return kinds.pop()


def read_documents(
    arguments: argparse.Namespace, tokenizer: TokenizerFolder, rules: Rules, left_out: LeftOut
) -> Iterator[Document]:
    def of_record(record: Record) -> Document:
        return document_of(record, tokenizer, rules)

    for path in arguments.input:
        if path.suffix.lower() == ".parquet":
            rows, parse = parquet_rows(path), record_of
        else:
            rows, parse = json_lines(path), parse_line
        yield from usable_rows(
            path, rows, arguments.lines, lambda row, parse=parse: of_record(parse(row)), left_out
        )


def write_documents(
    documents: Iterator[Document], out: TokenFile, tokenizer: TokenizerFolder, show: int
) -> None:
    for number, document in enumerate(documents):
        out.begin_document()
        out.write(document.ids, document.trained)
        if number < show:
            print(coloured(document, tokenizer.decode))


def write_text(
    paths: list[pathlib.Path], out: TokenFile, tokenizer: TokenizerFolder, rules: Rules
) -> None:
    def parts(before: str, after: str) -> bool:
        ids = tokenizer.encode(before)
        return [*ids, *encode_later([after], tokenizer)[0]] == tokenizer.encode(before + after)

    for path in paths:
        write_trained(out, tokenizer.beginning())
        remaining = pieces(path, parts)
        for first in itertools.islice(remaining, 1):
            write_trained(out, tokenizer.encode(first))
        while batch := list(itertools.islice(remaining, TEXT_BATCH_PIECES)):
            for ids in encode_later(batch, tokenizer):
                write_trained(out, ids)
        write_trained(out, [] if rules.end is None else [rules.end])


def write_trained(out: TokenFile, ids: list[int]) -> None:
    out.write(ids, b"\1" * len(ids))


def encode_later(texts: list[str], tokenizer: TokenizerFolder) -> list[list[int]]:
    """Texts that follow others are encoded after the end of a line: some tokenizers set a space
    before what they take for the beginning of a text."""
    line_end = len(tokenizer.encode("\n"))
    return [ids[line_end:] for ids in tokenizer.encode_batch(["\n" + text for text in texts])]

"""Records as tokens, and which of them are trained.

A boundary between what is trained and what is not is placed by encoding the text before it: its
tokens have to be the first tokens of the whole. So the model is trained on the very tokens that it
will see as a prompt. Where a token spans the boundary, or a chat template writes earlier turns
otherwise once there are later ones, there is no such place, and the record is refused.
"""

import dataclasses
from typing import Protocol

from .errors import LineError
from .records import Completion, Conversation, Record, Text


class Tokenizer(Protocol):
    special: list[str]
    special_ids: set[int]

    def beginning(self) -> list[int]: ...
    def encode(self, text: str) -> list[int]: ...
    def render(self, messages: list[dict], for_reply: bool = False) -> str: ...


@dataclasses.dataclass(frozen=True)
class Rules:
    """How records become tokens."""

    template: str = "{prompt}\n"  # what a prompt becomes
    end: int | None = None  # the token after text and completions
    as_chat: bool = False  # a prompt with its completion is a conversation of two turns
    train_all: bool = False  # prompts and other turns too


@dataclasses.dataclass(frozen=True)
class Document:
    ids: list[int]
    trained: bytes  # for each token 1 or 0


def document_of(record: Record, tokenizer: Tokenizer, rules: Rules) -> Document:
    """Throws LineError where the tokens to train cannot be told from the others."""
    if isinstance(record, Completion) and rules.as_chat:
        turns = (("user", record.prompt), ("assistant", record.completion))
        record = Conversation([{"role": role, "content": text} for role, text in turns])
    if isinstance(record, Conversation):
        document = conversation_document(record, tokenizer)
    elif isinstance(record, Completion):
        document = completion_document(record, tokenizer, rules)
    else:
        document = text_document(record, tokenizer, rules)
    return Document(document.ids, b"\1" * len(document.ids)) if rules.train_all else document


def with_end(ids: list[int], rules: Rules) -> list[int]:
    return ids if rules.end is None else [*ids, rules.end]


def text_document(record: Text, tokenizer: Tokenizer, rules: Rules) -> Document:
    ids = with_end(tokenizer.beginning() + tokenizer.encode(record.text), rules)
    return Document(ids, b"\1" * len(ids))


def completion_document(record: Completion, tokenizer: Tokenizer, rules: Rules) -> Document:
    prompt = rules.template.replace("{prompt}", record.prompt)
    text_ids = tokenizer.encode(prompt + record.completion)
    boundary = boundary_after(tokenizer.encode(prompt), text_ids, "the prompt")
    beginning = tokenizer.beginning()
    ids = with_end(beginning + text_ids, rules)
    untrained = len(beginning) + boundary
    return Document(ids, bytes(untrained) + b"\1" * (len(ids) - untrained))


def boundary_after(first: list[int], whole: list[int], what: str) -> int:
    if whole[: len(first)] != first:
        raise LineError(f"a token spans the end of {what}: what is trained cannot be told apart")
    return len(first)


def conversation_document(record: Conversation, tokenizer: Tokenizer) -> Document:
    messages = record.messages
    for message in messages:
        for special in tokenizer.special:
            if special in message["content"]:
                raise LineError(f"a message contains {special}, which only the template may write")
    text = tokenizer.render(messages)
    ids = tokenizer.encode(text)
    trained = bytearray(len(ids))
    for turn, message in enumerate(messages):
        if message["role"] == "assistant":
            begin, end = assistant_span(messages, turn, text, ids, tokenizer)
            trained[begin:end] = b"\1" * (end - begin)
    if not any(trained):
        raise LineError("no turn of the assistant: there is nothing to train")
    return Document(ids, bytes(trained))


def assistant_span(
    messages: list[dict], turn: int, text: str, ids: list[int], tokenizer: Tokenizer
) -> tuple[int, int]:
    """The tokens of a turn of the assistant, with its end token and without what follows that."""
    before = tokenizer.render(messages[:turn], for_reply=True)
    upto = tokenizer.render(messages[: turn + 1])
    if not upto.startswith(before):
        raise LineError(
            f"message {turn + 1}: the chat template does not write the assistant's turn after its "
            "own prompt for it"
        )
    if not text.startswith(upto):
        raise LineError(
            f"message {turn + 1}: the chat template writes this turn otherwise once there are "
            "later ones; give one conversation a line for each turn to train"
        )
    begin = boundary_after(tokenizer.encode(before), ids, f"the prompt of message {turn + 1}")
    upto_ids = tokenizer.encode(upto)
    ends = [i for i in range(begin, len(upto_ids)) if upto_ids[i] in tokenizer.special_ids]
    if not ends:
        raise LineError(f"message {turn + 1}: the chat template gives it no end token")
    end = boundary_after(upto_ids[: ends[-1] + 1], ids, f"message {turn + 1}")
    return begin, end

"""Records as tokens, and which of them are trained.

A boundary between what is trained and what is not is placed by encoding the text before it: its
tokens have to be the first tokens of the whole. So the model is trained on the very tokens that it
will see as a prompt. Where a token spans the boundary, or a chat template writes earlier turns
otherwise once there are later ones, there is no such place, and the record is refused.
"""

import dataclasses
import enum
import re
from typing import Protocol

from .errors import LineError
from .records import Completion, Conversation, Record, Text


class Tokenizer(Protocol):
    special: re.Pattern[str]  # matches the text of a special token

    def beginning(self) -> list[int]: ...
    def encode(self, text: str) -> list[int]: ...
    def render(self, messages: list[dict], for_reply: bool = False) -> str: ...


class Train(enum.Enum):
    ANSWERS = enum.auto()  # texts, completions, all turns of the assistant
    LAST_ANSWER = enum.auto()  # of a conversation the assistant's last turn alone
    EVERYTHING = enum.auto()  # prompts and the other turns too


@dataclasses.dataclass(frozen=True)
class Rules:
    """How records become tokens."""

    template: str = "{prompt}\n"  # what a prompt becomes
    end: int | None = None  # the token after text and completions
    as_chat: bool = False  # a prompt with its completion is a conversation of two turns
    train: Train = Train.ANSWERS


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
        return conversation_document(record, tokenizer, rules)
    if isinstance(record, Completion):
        return completion_document(record, tokenizer, rules)
    return text_document(record, tokenizer, rules)


def all_trained(ids: list[int]) -> Document:
    return Document(ids, b"\1" * len(ids))


def with_end(ids: list[int], rules: Rules) -> list[int]:
    return ids if rules.end is None else [*ids, rules.end]


def require_plain(text: str, what: str, writer: str, tokenizer: Tokenizer) -> None:
    if special := tokenizer.special.search(text):
        raise LineError(f"{what} contains {special[0]}, which only {writer} may write")


def text_document(record: Text, tokenizer: Tokenizer, rules: Rules) -> Document:
    return all_trained(with_end(tokenizer.beginning() + tokenizer.encode(record.text), rules))


def completion_document(record: Completion, tokenizer: Tokenizer, rules: Rules) -> Document:
    require_plain(record.prompt, "the prompt", "--template", tokenizer)
    require_plain(record.completion, "the completion", "--eos", tokenizer)
    prompt = rules.template.replace("{prompt}", record.prompt)
    text_ids = tokenizer.encode(prompt + record.completion)
    beginning = tokenizer.beginning()
    ids = with_end(beginning + text_ids, rules)
    if rules.train is Train.EVERYTHING:
        return all_trained(ids)
    boundary = boundary_after(tokenizer.encode(prompt), text_ids, "the prompt")
    untrained = len(beginning) + boundary
    return Document(ids, bytes(untrained) + b"\1" * (len(ids) - untrained))


def boundary_after(first: list[int], whole: list[int], what: str) -> int:
    if whole[: len(first)] != first:
        raise LineError(f"a token spans the end of {what}: what is trained cannot be told apart")
    return len(first)


def conversation_document(record: Conversation, tokenizer: Tokenizer, rules: Rules) -> Document:
    messages = record.messages
    for message in messages:
        require_plain(message["content"], "a message", "the template", tokenizer)
    text = tokenizer.render(messages)
    ids = tokenizer.encode(text)
    if rules.train is Train.EVERYTHING:
        return all_trained(ids)
    turns = [turn for turn, message in enumerate(messages) if message["role"] == "assistant"]
    if not turns:
        raise LineError("no turn of the assistant: there is nothing to train")
    trained = bytearray(len(ids))
    for turn in turns[-1:] if rules.train is Train.LAST_ANSWER else turns:
        begin, end = assistant_span(messages, turn, text, ids, tokenizer)
        trained[begin:end] = b"\1" * (end - begin)
    return Document(ids, bytes(trained))


def assistant_span(
    messages: list[dict], turn: int, text: str, ids: list[int], tokenizer: Tokenizer
) -> tuple[int, int]:
    """The tokens of a turn of the assistant, with its end token: the first special token after
    what it says. What a template writes after that is not the turn's."""
    name = f"message {turn + 1}"
    if turn == 0:
        raise LineError(f"{name}: the assistant speaks first: there is no prompt for that")
    before = tokenizer.render(messages[:turn], for_reply=True)
    upto = tokenizer.render(messages[: turn + 1])
    if not upto.startswith(before):
        raise LineError(
            f"{name}: the chat template does not write the assistant's turn after its own prompt "
            "for it"
        )
    end_token = tokenizer.special.search(upto, len(before))
    if not end_token:
        raise LineError(f"{name}: the chat template gives it no end token")
    written = without_spaces(upto[len(before) : end_token.start()])
    content = without_spaces(messages[turn]["content"])
    if not written.startswith(content) and before == tokenizer.render(messages[:turn]):
        raise LineError(
            f"{name}: the chat template has no prompt for the assistant's turn "
            "(add_generation_prompt), and writes something before what it says"
        )
    if content not in written:
        raise LineError(
            f"{name}: the chat template leaves out some of it, or writes {end_token[0]} before it"
        )
    turn_text = upto[: end_token.end()]
    if not text.startswith(turn_text):
        raise LineError(
            f"{name}: the chat template writes this turn otherwise once there are later ones; "
            "--last-turn trains only the assistant's last turn of each line"
        )
    begin = boundary_after(tokenizer.encode(before), ids, f"the prompt of {name}")
    return begin, boundary_after(tokenizer.encode(turn_text), ids, name)


def without_spaces(text: str) -> str:
    """Templates set and strip spaces around what is said."""
    return "".join(text.split())

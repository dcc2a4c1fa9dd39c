"""What a line of a JSON lines file says: text, a prompt with its completion, or a conversation."""

import dataclasses
import json
from collections.abc import Iterable

from .errors import LineError

SPEAKERS = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
}
ROLES = ("system", "developer", "user", "assistant", "tool")
# Of a line or a turn: where one of these says something, the rest alone means something else.
UNSUPPORTED = (
    "tools",
    "functions",
    "history",
    "system_prompt",
    "image",
    "images",
    "videos",
    "audios",
)
PAIRS = (("prompt", "completion"), ("question", "answer"), ("instruction", "output"))
KEYS = (
    "messages; conversations; prompt and completion; question and answer; instruction and output; "
    "or text"
)


@dataclasses.dataclass(frozen=True)
class Text:
    text: str


@dataclasses.dataclass(frozen=True)
class Completion:
    prompt: str
    completion: str


@dataclasses.dataclass(frozen=True)
class Conversation:
    messages: list[dict]


Record = Text | Completion | Conversation


def parse_line(line: bytes) -> Record:
    """Throws LineError saying what is wrong."""
    try:
        fields = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise LineError(f"not UTF-8: {error.reason} at byte {error.start}") from error
    except (ValueError, RecursionError) as error:
        raise LineError(f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise LineError("not a JSON object")
    return record_of(fields)


def record_of(fields: dict) -> Record:
    if "messages" in fields:
        return conversation_of(fields, [message_of(t) for t in turns_of(fields, "messages")])
    if "conversations" in fields:
        turns = turns_of(fields, "conversations")
        return conversation_of(fields, [message_of_speaker(turn) for turn in turns])
    for prompt_key, completion_key in PAIRS:
        if prompt_key in fields and completion_key in fields:
            return completion_of(fields, prompt_key, completion_key)
    if "text" in fields:
        return Text(text_of(fields, "text"))
    for pair in PAIRS:
        if present := [key for key in pair if key in fields]:
            missing = next(key for key in pair if key not in fields)
            raise LineError(f"has '{present[0]}' but no '{missing}'")
    raise LineError(f"has none of the known keys: {KEYS}")


def conversation_of(fields: dict, messages: list[dict]) -> Conversation:
    refuse_keys(fields, UNSUPPORTED)
    if fields.get("system"):
        if messages[0]["role"] == "system":
            raise LineError("has 'system' and a first message of the system")
        messages = [{"role": "system", "content": text_of(fields, "system")}, *messages]
    return Conversation(messages)


def completion_of(fields: dict, prompt_key: str, completion_key: str) -> Completion:
    refuse_keys(fields, ("system", *UNSUPPORTED))
    prompt = text_of(fields, prompt_key)
    if prompt_key == "instruction" and fields.get("input"):
        prompt += "\n\n" + text_of(fields, "input")
    return Completion(prompt, text_of(fields, completion_key))


def refuse_keys(fields: dict, keys: Iterable[str]) -> None:
    for key in keys:
        if fields.get(key):
            raise LineError(f"has '{key}', which is not supported here")


def text_of(fields: dict, key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str):
        raise LineError(f"'{key}' is not a string")
    if not value:
        raise LineError(f"'{key}' is empty")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise LineError(f"'{key}' has half of a surrogate pair, which is no text") from error
    return value


def turns_of(fields: dict, key: str) -> list[dict]:
    turns = fields[key]
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise LineError(f"'{key}' is not a list of objects")
    if not turns:
        raise LineError(f"'{key}' is empty")
    return turns


def message_of(turn: dict) -> dict:
    said = {key for key, value in turn.items() if value is not None}
    if unknown := sorted(said - {"role", "content"}):
        raise LineError(f"a message with '{unknown[0]}': only 'role' and 'content' are supported")
    role = text_of(turn, "role")
    if role not in ROLES:
        raise LineError(f"a message of '{role}': known are {', '.join(ROLES)}")
    return {"role": role, "content": text_of(turn, "content")}


def message_of_speaker(turn: dict) -> dict:
    speaker = text_of(turn, "from")
    if speaker not in SPEAKERS:
        raise LineError(f"a turn from '{speaker}': known are {', '.join(SPEAKERS)}")
    refuse_keys(turn, ("tool_calls", *UNSUPPORTED))
    role = SPEAKERS[speaker]
    trained = 1 if role == "assistant" else 0
    if turn.get("weight") not in (None, trained):
        raise LineError(
            f"a turn from '{speaker}' of weight {turn['weight']}: the assistant's turns are "
            "trained, and no others"
        )
    return {"role": role, "content": text_of(turn, "value")}

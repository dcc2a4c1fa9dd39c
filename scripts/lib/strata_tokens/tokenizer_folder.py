"""A model folder's tokenizer: tokenizer.json, and from the configuration the end token.

Needs the PyPI packages tokenizers and xxhash, and for chat templates transformers and jinja2.
"""

import importlib.util
import json
import os
import pathlib
import re
from collections.abc import Sequence

from .errors import LineError, UsageError
from .model_folder import TOKENIZER, tokenizer_folder

PACKAGES = ("tokenizers", "transformers", "jinja2", "xxhash")
INSTALL = f"python3 -m venv VENV && VENV/bin/pip install {' '.join(PACKAGES)}"


def require_packages() -> None:
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise UsageError(
                f"Python's package {package} is missing; all that is needed: {INSTALL}, "
                "and then run this with VENV/bin/python"
            )


def vocabulary(tokenizer: dict) -> dict[int, str]:
    """The token of each id, from the contents of a tokenizer.json. An added token wins."""
    entries = tokenizer["model"]["vocab"]
    if isinstance(entries, dict):
        tokens = {id: token for token, id in entries.items()}
    else:  # Unigram: [token, score] in the order of the ids
        tokens = {id: entry[0] for id, entry in enumerate(entries)}
    return tokens | {added["id"]: added["content"] for added in added_tokens(tokenizer)}


def added_tokens(tokenizer: dict) -> list[dict]:
    return tokenizer.get("added_tokens") or []


def hashed_text(tokens: dict[int, str]) -> bytes:
    """What stands for a vocabulary when it is hashed."""
    return "".join(f"{id} {tokens[id]}\n" for id in sorted(tokens)).encode()


def vocabulary_hash(tokens: dict[int, str]) -> str:
    import xxhash

    return f"xxh3-128:{xxhash.xxh3_128_hexdigest(hashed_text(tokens))}"


def special_tokens(tokenizer: dict) -> re.Pattern[str]:
    """Matches the text of a special token, the longest where several begin alike."""
    texts = [token["content"] for token in added_tokens(tokenizer) if token.get("special")]
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def read_json(path: pathlib.Path) -> dict:
    """{}: there is no such file."""
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: {error}") from error
    if not isinstance(contents, dict):
        raise UsageError(f"{path}: not a JSON object")
    return contents


def id_of(token: str, tokens: dict[int, str]) -> int | None:
    return next((id for id, text in tokens.items() if text == token), None)


def end_token_of(folder: pathlib.Path, tokens: dict[int, str]) -> int | None:
    """The end token that the folder's configuration names."""
    token = read_json(folder / "tokenizer_config.json").get("eos_token")
    if isinstance(token, dict):
        token = token.get("content")
    if token is not None:
        return id_of(token, tokens)
    ids = read_json(folder / "config.json").get("eos_token_id")
    return ids[0] if isinstance(ids, list) else ids


class TokenizerFolder:
    def __init__(self, model: str) -> None:
        """`model` as model_folder.tokenizer_folder has it."""
        require_packages()
        import tokenizers

        self._folder = tokenizer_folder(model)
        path = self._folder / TOKENIZER
        contents = read_json(path)
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
            self.tokens = vocabulary(contents)
            self.special = special_tokens(contents)
        except Exception as error:  # tokenizers throws no other
            raise UsageError(f"{path} is not a tokenizer: {error}") from error
        if not self.tokens:
            raise UsageError(f"{path} has no tokens")
        self.end = end_token_of(self._folder, self.tokens)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._templates = None

    @property
    def size(self) -> int:
        return max(self.tokens) + 1

    def hash(self) -> str:
        return vocabulary_hash(self.tokens)

    def id_of(self, token: str) -> int | None:
        return id_of(token, self.tokens)

    def beginning(self) -> list[int]:
        """The tokens that this tokenizer sets before every text, such as <s>."""
        ids = self._tokenizer.encode("").ids
        return ids[:-1] if len(ids) > 1 and ids[-1] == self.end else ids

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        encodings = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False)

    def render(self, messages: list[dict], for_reply: bool = False) -> str:
        """The conversation as the folder's chat template writes it; `for_reply`: up to where the
        assistant's answer would begin."""
        import jinja2

        self.load_chat_template()
        try:
            return self._templates.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=for_reply
            )
        except (
            jinja2.TemplateError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            raise LineError(f"the chat template refuses this conversation: {error}") from error

    def load_chat_template(self) -> None:
        """Throws UsageError where the folder has none."""
        if self._templates is not None:
            return
        # It need not say that there is no PyTorch.
        os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
        import transformers

        tokenizer = transformers.AutoTokenizer.from_pretrained(self._folder)
        if not tokenizer.chat_template:
            raise UsageError(
                f"{self._folder} has no chat template, which conversations need; a model that only "
                "continues texts has none: chat.py --template '{prompt}' goes on with yours"
            )
        self._templates = tokenizer

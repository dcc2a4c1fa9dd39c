"""Finds the folder of a model that is named as strata's --model has it."""

import os
import pathlib
import re

from .errors import UsageError

TOKENIZER = "tokenizer.json"
HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)


def tokenizer_folder(model: str) -> pathlib.Path:
    """`model`: a model folder, a run's folder, or org/name in the local Hugging Face cache."""
    folder = pathlib.Path(model)
    if not folder.is_dir():
        if not HUB_NAME.fullmatch(model):
            raise UsageError(f"there is no folder {model}")
        folder = cached_folder(model)
    candidates = (folder, folder / "model")  # a run keeps the tokenizer of its model in the latter
    for candidate in candidates:
        if (candidate / TOKENIZER).is_file():
            return candidate
    raise UsageError(f"{folder} has no {TOKENIZER}: give a Hugging Face model folder, or a run's")


def cached_folder(name: str) -> pathlib.Path:
    """The snapshot that the cache has of the main branch."""
    cache = hub_cache()
    folder = cache / f"models--{name.replace('/', '--')}"
    try:
        commit = (folder / "refs" / "main").read_text(encoding="utf-8").strip()
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no folder {name}, and the Hugging Face cache ({cache}) does not have it; "
            f"download it: hf download {name}"
        ) from error
    return folder / "snapshots" / commit


def hub_cache() -> pathlib.Path:
    """As huggingface_hub.constants has it."""
    if cache := os.environ.get("HF_HUB_CACHE"):
        return pathlib.Path(cache)
    if home := os.environ.get("HF_HOME"):
        return pathlib.Path(home) / "hub"
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "huggingface" / "hub"

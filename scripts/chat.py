#!/usr/bin/env python3
r"""Talks to a model: encodes with its chat template and calls strata generate.

    scripts/chat.py MODEL [options] [options of strata generate]
    scripts/chat.py MODEL --message TEXT            one answer
    scripts/chat.py MODEL --template '{prompt}\n'   no chat: each message as the model was trained
                                                    on by scripts/tokenize.py --template

MODEL is a Hugging Face model folder, org/name in the local cache, or a run's folder. Other options
go to strata generate, such as --max-tokens 200 --temperature 0.7 --top-p 0.9 --host-memory 8GiB.
The program is $STRATA, or build/engine/strata, or the strata that is installed. Without --message
it asks for one after the other; an end of file ends it.

Needs: python3 -m venv VENV && VENV/bin/pip install tokenizers transformers jinja2 xxhash
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

# In place of this folder, whose tokenize.py is not Python's module of that name.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")

from strata_tokens.command import parse_template
from strata_tokens.errors import LineError, UsageError
from strata_tokens.tokenizer_folder import TokenizerFolder

READ_BYTES = 4096


def parse_arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # --temp is strata's to complain about
    )
    parser.add_argument("model")
    parser.add_argument("--message", help="answer this and end")
    parser.add_argument("--system", help="what the conversation opens with")
    parser.add_argument("--template", type=parse_template, help="plain prompts, no chat template")
    return parser.parse_known_args()


def find_strata() -> str:
    built = pathlib.Path(__file__).resolve().parent.parent / "build" / "engine" / "strata"
    wanted = os.environ.get("STRATA")
    for program in [wanted] if wanted else [str(built), "strata"]:
        if found := shutil.which(program):
            return found
    raise UsageError(f"there is no program {wanted or built}: build it, or set STRATA")


class Chat:
    """A conversation, or with a template, prompts that know nothing of each other."""

    def __init__(self, arguments: argparse.Namespace, options: list[str]) -> None:
        self._tokenizer = TokenizerFolder(arguments.model)
        self._command = [find_strata(), "generate", "--model", arguments.model, *options]
        self._template = arguments.template
        if self._template is None:
            self._tokenizer.load_chat_template()
        self._messages: list[dict] = []
        if arguments.system is not None:
            self._messages.append({"role": "system", "content": arguments.system})

    def answer(self, message: str) -> None:
        """Prints the answer as it comes. Where there is none, UsageError or LineError says why, and
        the conversation is as it was."""
        if self._template is not None:
            prompt = self._template.replace("{prompt}", message)
            self._generate(self._tokenizer.beginning() + self._tokenizer.encode(prompt))
            return
        messages = [*self._messages, {"role": "user", "content": message}]
        prompt = self._tokenizer.render(messages, for_reply=True)
        reply = self._generate(self._tokenizer.encode(prompt))
        self._messages = [*messages, {"role": "assistant", "content": reply}]

    def _generate(self, ids: list[int]) -> str:
        command = [*self._command, "--prompt-ids", ",".join(map(str, ids))]
        reply = b""
        with tempfile.TemporaryFile() as note_file:
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=note_file) as process:
                while text := os.read(process.stdout.fileno(), READ_BYTES):
                    sys.stdout.buffer.write(text)
                    sys.stdout.buffer.flush()
                    reply += text
            note_file.seek(0)
            notes = note_file.read().decode(errors="replace")
        if reply and not reply.endswith(b"\n"):
            print(flush=True)
        if process.returncode != 0:
            raise UsageError(notes.strip() or f"strata ended with status {process.returncode}")
        print(notes, end="", file=sys.stderr)
        return reply.decode(errors="replace").strip()


def answer_or_say_why_not(chat: Chat, message: str) -> None:
    try:
        chat.answer(message)
    except (UsageError, LineError) as error:
        print(f"chat: {error}", file=sys.stderr)


def main() -> int:
    arguments, options = parse_arguments()
    try:
        chat = Chat(arguments, options)
        if arguments.message is not None:
            chat.answer(arguments.message)
            return 0
        while True:
            answer_or_say_why_not(chat, input("> "))
    except EOFError:
        print()
        return 0
    except KeyboardInterrupt:
        return 130
    except (UsageError, LineError, OSError) as error:
        print(f"chat: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())

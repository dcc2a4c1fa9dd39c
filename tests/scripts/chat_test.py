"""scripts/chat.py with a fake tokenizer and a program that answers with what it was asked."""

import argparse
import contextlib
import importlib.util
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import fake_tokenizer
from fake_tokenizer import FakeTokenizer
from strata_tokens.errors import UsageError

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "chat.py"


def load_script():
    spec = importlib.util.spec_from_file_location("chat", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class ChatTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.asked = pathlib.Path(folder.name) / "asked"
        self.program = pathlib.Path(folder.name) / "strata"
        self.set_program(f'echo "$*" >>{self.asked}; echo " fine"')
        self.tokenizer = FakeTokenizer(fake_tokenizer.turns)
        self.chat_script = load_script()
        for change in (
            mock.patch.dict(os.environ, STRATA=str(self.program)),
            mock.patch.object(self.chat_script, "TokenizerFolder", lambda model: self.tokenizer),
        ):
            change.start()
            self.addCleanup(change.stop)

    def set_program(self, commands):
        self.program.write_text(f"#!/bin/sh\n{commands}\n")
        self.program.chmod(0o755)

    def chat(self, system=None, template=None):
        arguments = argparse.Namespace(model="MODEL", system=system, template=template)
        return self.chat_script.Chat(arguments, ["--top-k", "5"])

    def answer(self, chat, message):
        with mock.patch("sys.stdout", io.TextIOWrapper(io.BytesIO())) as output:
            chat.answer(message)
            output.seek(0)
            return output.read()

    def run_script(self, *arguments, messages=()):
        """What main() returns, and what it writes to standard error."""
        with (
            mock.patch("sys.argv", ["chat.py", "MODEL", *arguments]),
            mock.patch("builtins.input", side_effect=[*messages, EOFError]),
            mock.patch("sys.stdout", io.TextIOWrapper(io.BytesIO())),
            contextlib.redirect_stderr(io.StringIO()) as errors,
        ):
            return self.chat_script.main(), errors.getvalue()

    def prompts(self):
        """The texts that the program was asked to go on from."""
        texts = []
        for line in self.asked.read_text().splitlines():
            options, ids = line.split(" --prompt-ids ")
            self.assertEqual(options, "generate --model MODEL --top-k 5")
            texts.append(self.tokenizer.text_of(int(id) for id in ids.split(",")))
        return texts

    def test_a_conversation_goes_through_the_template_with_what_was_said(self):
        chat = self.chat(system="be kind")
        self.assertEqual(self.answer(chat, "how"), " fine\n")
        self.answer(chat, "and you")
        first = "<|turn|>system\nbe kind</s>\n<|turn|>user\nhow</s>\n<|turn|>assistant\n"
        second = first + "fine</s>\n<|turn|>user\nand you</s>\n<|turn|>assistant\n"
        self.assertEqual(self.prompts(), [first, second])

    def test_with_a_template_prompts_are_plain_and_alone(self):
        chat = self.chat(template="Q: {prompt}\n")
        self.answer(chat, "one")
        self.answer(chat, "two")
        self.assertEqual(self.prompts(), ["Q: one\n", "Q: two\n"])

    def test_a_program_that_fails_or_is_not_there_is_an_error(self):
        self.set_program("echo strata: error: no memory >&2; exit 3")
        with self.assertRaisesRegex(UsageError, "^strata: error: no memory$"):
            self.answer(self.chat(), "how")
        self.set_program("kill -9 $$")
        with self.assertRaisesRegex(UsageError, "strata ended with status -9"):
            self.answer(self.chat(), "how")
        self.program.unlink()
        with self.assertRaisesRegex(UsageError, "there is no program"):
            self.chat()

    def test_an_installed_program_is_found(self):
        nothing_built = mock.patch.object(self.chat_script, "__file__", "/none/scripts/chat.py")
        with nothing_built, mock.patch.dict(os.environ, STRATA="", PATH=str(self.program.parent)):
            self.assertEqual(self.chat_script.find_strata(), str(self.program))

    def test_options_that_are_not_its_own_are_the_programs_even_if_they_begin_alike(self):
        self.assertEqual(self.run_script("--temp", "0", "--message", "how"), (0, ""))
        self.assertIn("--model MODEL --temp 0 --prompt-ids", self.asked.read_text())

    def test_a_message_that_fails_is_told_and_not_remembered(self):
        fails_once = (
            f"[ -e {self.asked}.failed ] || {{ >{self.asked}.failed; echo long >&2; exit 1; }}"
        )
        self.set_program(f'{fails_once}; echo "$*" >>{self.asked}; echo yes; echo full >&2')
        status, errors = self.run_script("--top-k", "5", messages=["too long", "short"])
        self.assertEqual((status, errors), (0, "chat: long\nfull\n"))
        self.assertEqual(self.prompts(), ["<|turn|>user\nshort</s>\n<|turn|>assistant\n"])

    def test_without_a_chat_template_it_does_not_begin(self):
        self.tokenizer = FakeTokenizer()
        self.assertEqual(self.run_script(messages=["how"]), (1, "chat: no chat template\n"))
        self.assertEqual(self.run_script("--template", "{prompt}", messages=["how"]), (0, ""))

    def test_the_only_message_failing_is_a_failure(self):
        self.set_program("echo strata: error: no memory >&2; exit 3")
        expected = (1, "chat: strata: error: no memory\n")
        self.assertEqual(self.run_script("--message", "how"), expected)


if __name__ == "__main__":
    unittest.main()

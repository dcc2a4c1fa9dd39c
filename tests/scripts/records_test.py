"""Lines of JSON, those that cannot be used, and pieces of text."""

import contextlib
import io
import itertools
import pathlib
import tempfile
import unittest
from unittest import mock

from strata_tokens import reading
from strata_tokens.errors import LineError, UsageError
from strata_tokens.records import Completion, Conversation, Text, parse_line

SYSTEM = {"role": "system", "content": "be"}
TURNS = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]


class Lines(unittest.TestCase):
    def test_each_kind_of_line(self):
        cases = {
            b'{"text": "a"}': Text("a"),
            b'{"prompt": "a", "completion": "b"}': Completion("a", "b"),
            b'{"question": "a", "answer": "b", "id": 7}': Completion("a", "b"),
            b'{"instruction": "a", "input": "b", "output": "c"}': Completion("a\n\nb", "c"),
            b'{"instruction": "a", "input": "", "output": "c"}': Completion("a", "c"),
            b'{"instruction": "a", "output": "c"}': Completion("a", "c"),
            b'{"messages": [{"role": "user", "content": "hi"}, '
            b'{"role": "assistant", "content": "yes"}]}': Conversation(TURNS),
            b'{"conversations": [{"from": "human", "value": "hi"}, '
            b'{"from": "gpt", "value": "yes"}]}': Conversation(TURNS),
            b'{"conversations": [{"from": "human", "value": "hi", "weight": 0}, '
            b'{"from": "gpt", "value": "yes", "weight": 1.0, "tool_calls": null}], '
            b'"system": "be", "tools": "", "id": 7}': Conversation([SYSTEM, *TURNS]),
            b'{"messages": [{"role": "user", "content": "hi", "name": null}, '
            b'{"role": "assistant", "content": "yes"}], "system": ""}': Conversation(TURNS),
            b'{"instruction": "a", "output": "c", "history": [], "system": ""}': Completion(
                "a", "c"
            ),
        }
        for line, record in cases.items():
            with self.subTest(line):
                self.assertEqual(parse_line(line), record)

    def test_what_is_malformed_is_named(self):
        cases = {
            b"{": "not JSON",
            b"[1]": "not a JSON object",
            b'{"text": "\xff"}': "not UTF-8",
            b'{"text": "\\ud83d"}': "surrogate",
            b'{"text": 3}': "'text' is not a string",
            b'{"text": ""}': "'text' is empty",
            b'{"title": "a"}': "none of the known keys",
            b'{"prompt": "a"}': "has 'prompt' but no 'completion'",
            b'{"answer": "a", "id": 7}': "has 'answer' but no 'question'",
            b'{"instruction": "a", "input": "b"}': "has 'instruction' but no 'output'",
            b'{"messages": []}': "'messages' is empty",
            b'{"messages": ["a"]}': "not a list of objects",
            b'{"messages": [{"role": "user", "content": null}]}': "'content' is not a string",
            b'{"messages": [{"role": "a", "content": "b", "tool_calls": []}]}': "'tool_calls'",
            b'{"conversations": [{"from": "tool", "value": "x"}]}': "a turn from 'tool'",
            b'{"messages": [{"role": "asistant", "content": "b"}]}': "a message of 'asistant'",
            b'{"messages": [{"role": "system", "content": "b"}], "system": "c"}': "'system' and a",
            b'{"messages": [{"role": "user", "content": "b"}], "tools": [{}]}': "has 'tools'",
            b'{"conversations": [{"from": "gpt", "value": "x", "weight": 0}]}': "of weight 0",
            b'{"conversations": [{"from": "human", "value": "x", "weight": 1}]}': "of weight 1",
            b'{"conversations": [{"from": "gpt", "value": "x", "tool_calls": [1]}]}': "tool_calls",
            b'{"instruction": "a", "output": "b", "system": "c"}': "has 'system'",
            b'{"instruction": "a", "output": "b", "history": [["c", "d"]]}': "has 'history'",
            b"[" * 100000: "not JSON",
        }
        for line, message in cases.items():
            with self.subTest(line[:60]), self.assertRaisesRegex(LineError, message):
                parse_line(line)


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "data"

    def read(self, lines, left_out):
        rows = reading.json_lines(self.path)
        return list(reading.usable_rows(self.path, rows, lines, parse_line, left_out))

    def test_bad_lines_are_reported_with_file_and_line_and_counted(self):
        self.path.write_bytes(b'{"text": "a"}\nbad\n{"text": "b"}\n\nbad')
        left_out = reading.LeftOut(errors_max=10)
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            self.assertEqual(self.read(range(1, 99), left_out), [Text("a"), Text("b")])
        self.assertEqual((left_out.bad, left_out.empty), (2, 1))
        self.assertIn(f"{self.path}:2: not JSON", errors.getvalue())
        self.assertIn(f"{self.path}:5: not JSON", errors.getvalue())

    def test_too_many_bad_lines_end_it(self):
        self.path.write_bytes(b"bad\n" * 3)
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(UsageError):
            self.read(range(1, 99), reading.LeftOut(errors_max=2))

    def test_lines_are_numbered_from_one(self):
        self.path.write_bytes(b"".join(b'{"text": "%d"}\n' % i for i in range(1, 6)))
        texts = self.read(range(2, 4), reading.LeftOut(errors_max=1))
        self.assertEqual(texts, [Text("2"), Text("3")])

    def test_an_array_is_refused_with_what_makes_lines_of_it(self):
        self.path.write_bytes(b' \n[{"text": "a"}]')
        with self.assertRaisesRegex(UsageError, "jq -c"):
            self.read(range(1, 99), reading.LeftOut(errors_max=1))

    def test_a_byte_order_mark_is_not_of_the_text(self):
        self.path.write_bytes(b'\xef\xbb\xbf{"text": "a"}\n{"text": "b"}')
        texts = self.read(range(1, 99), reading.LeftOut(errors_max=1))
        self.assertEqual(texts, [Text("a"), Text("b")])
        self.path.write_bytes(b"\xef\xbb\xbfone")
        self.assertEqual(list(reading.pieces(self.path, never)), ["one"])

    def test_pieces_are_the_text_and_end_where_tokens_part(self):
        def parts(before, after):
            return before.endswith("\n") and after[0].isalpha()

        for line_end in ("\n", "\r\n", "\n\n\n"):
            text = line_end.join(["one line", "another", "  indented", "last", ""]) * 500
            self.path.write_bytes(text.encode())
            with self.subTest(line_end), mock.patch.object(reading, "PIECE_CHARACTERS", 1000):
                pieces = list(reading.pieces(self.path, parts))
                self.assertEqual("".join(pieces), text)
                self.assertGreater(len(pieces), 10)
                for before, after in itertools.pairwise(pieces):
                    self.assertTrue(parts(before, after))

    def test_a_text_without_a_place_to_part_is_refused_and_not_cut(self):
        self.path.write_bytes(b"one\n" + b"\nmore and more" * 100)
        with (
            mock.patch.object(reading, "PIECE_CHARACTERS", 300),
            mock.patch.object(reading, "PIECE_CHARACTERS_MAX", 900),
            self.assertRaisesRegex(UsageError, f"{self.path}:1: in 900 characters"),
        ):
            list(reading.pieces(self.path, never))


def never(before, after):
    return False


if __name__ == "__main__":
    unittest.main()

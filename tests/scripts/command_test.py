"""scripts/tokenize.py from its command line to its files, with a fake tokenizer."""

import contextlib
import io
import pathlib
import struct
import tempfile
import unittest
from unittest import mock

from fake_tokenizer import BEGIN, END, FakeTokenizer
from strata_tokens import command, reading

SAMPLES = b'{"prompt": "a", "completion": "b"}\n{"text": ""}\n{"text": "c d"}\n'


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.tokenizer = FakeTokenizer(begins=True)

    def run_on(self, name, contents, *options):
        """The exit status, and what is printed."""
        path = self.folder / name
        path.write_bytes(contents)
        arguments = ["tokenize.py", str(path), "--tokenizer", "T", "--out", f"{self.folder}/out"]
        with (
            mock.patch("sys.argv", [*arguments, *options]),
            mock.patch.object(command, "TokenizerFolder", lambda model: self.tokenizer),
            contextlib.redirect_stdout(io.StringIO()) as output,
            contextlib.redirect_stderr(output),
        ):
            return command.main("description"), output.getvalue()

    def written(self):
        """The text of the tokens."""
        data = (self.folder / "out.bin").read_bytes()[1024:]
        ids = struct.unpack(f"<{len(data) // 2}H", data)
        return self.tokenizer.text_of(ids)

    def outputs(self):
        return sorted(path.name for path in self.folder.glob("*out*"))

    def test_a_bad_line_is_reported_and_nothing_is_written(self):
        status, output = self.run_on("data.jsonl", SAMPLES)
        self.assertEqual(status, 1)
        self.assertIn("data.jsonl:2: 'text' is empty\n", output)
        self.assertIn("1 line cannot be used: nothing is written", output)
        self.assertEqual(self.outputs(), [])

    def test_on_request_it_is_left_out_and_counted(self):
        status, output = self.run_on("data.jsonl", SAMPLES, "--skip-malformed")
        self.assertEqual(status, 0)
        self.assertIn("2 documents; left out 1 bad line and 0 empty lines", output)
        self.assertEqual(self.written(), "<s>a\nb</s><s>c d</s>")
        mask = (self.folder / "out.mask").read_bytes()
        self.assertEqual(mask, b"\0\0\0\1\1" + b"\1\1\1\1")
        self.assertEqual(self.outputs(), ["out.bin", "out.docs", "out.json", "out.mask"])

    def test_lines_and_template(self):
        options = ("--lines", "1:1", "--template", r"Q: {prompt}\nA:", "--no-eos")
        self.assertEqual(self.run_on("data.jsonl", SAMPLES, *options)[0], 0)
        self.assertEqual(self.written(), "<s>Q: a\nA:b")

    def test_text_is_one_sequence_whatever_the_pieces(self):
        text = "one two\nthree\n\nfour\r\nfive six\n" * 100
        with mock.patch.object(reading, "PIECE_CHARACTERS", 10):
            self.assertEqual(self.run_on("data.txt", text.encode())[0], 0)
        self.assertEqual(self.written(), f"<s>{text}</s>")
        self.assertEqual(self.outputs(), ["out.bin", "out.json"])
        expected = [BEGIN, *self.tokenizer.encode(text), END]
        data = (self.folder / "out.bin").read_bytes()[1024:]
        self.assertEqual(data, struct.pack(f"<{len(expected)}H", *expected))

    def test_samples_are_shown_with_what_is_trained_in_colour(self):
        self.tokenizer.decode = self.tokenizer.text_of
        _, output = self.run_on("data.jsonl", SAMPLES, "--lines", "1:1", "--show", "1")
        self.assertIn("\033[2m<s>a\n\033[0m\033[32mb</s>\033[0m\n", output)

    def test_empty_lines_are_passed_over_and_counted(self):
        status, output = self.run_on("data.jsonl", b'{"text": "a"}\n\n \t\n{"text": "b"}\n\n')
        self.assertEqual(status, 0)
        self.assertIn("2 documents; left out 0 bad lines and 3 empty lines", output)
        self.assertEqual(self.written(), "<s>a</s><s>b</s>")

    def test_a_table_is_not_taken_for_text(self):
        for name in ("data.csv", "data.TSV"):
            status, output = self.run_on(name, b"question,answer\n1,2\n")
            self.assertEqual(status, 1)
            self.assertIn(f"{name} is a table", output)
        self.assertEqual(self.outputs(), [])

    def test_what_is_compressed_is_not_taken_for_text(self):
        status, output = self.run_on("data.jsonl.GZ", b"\x1f\x8b")
        self.assertEqual(status, 1)
        self.assertIn("data.jsonl.GZ is compressed", output)

    def test_records_are_known_by_their_extension_in_any_case(self):
        for name in ("data.JSONL", "data.ndjson"):
            self.assertEqual(self.run_on(name, b'{"text": "a"}\n')[0], 0)
            self.assertEqual(self.written(), "<s>a</s>")

    def test_an_input_is_never_an_output(self):
        status, output = self.run_on("out.json", b'{"text": "precious"}\n')
        self.assertEqual(status, 1)
        self.assertIn("out.json would be replaced", output)
        self.assertEqual((self.folder / "out.json").read_bytes(), b'{"text": "precious"}\n')

    def test_options_are_not_abbreviated(self):
        with self.assertRaises(SystemExit):
            self.run_on("data.jsonl", SAMPLES, "--skip")

    def test_a_last_line_may_be_of_any_size(self):
        self.assertEqual(self.run_on("data.jsonl", SAMPLES, "--lines", f"3:{10**30}")[0], 0)
        self.assertEqual(self.written(), "<s>c d</s>")

    def test_ranges_of_lines_that_make_no_sense_are_refused(self):
        for lines in ("0:3", "5:4", "3", "a:b", f"{10**30}:5"):
            with self.subTest(lines), self.assertRaises(SystemExit):
                self.run_on("data.jsonl", SAMPLES, "--lines", lines)


if __name__ == "__main__":
    unittest.main()

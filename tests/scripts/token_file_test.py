"""The files that are written, byte by byte, and what a vocabulary's hash is of."""

import json
import os
import pathlib
import struct
import tempfile
import unittest

from strata_tokens.errors import UsageError
from strata_tokens.token_file import TokenFile
from strata_tokens.tokenizer_folder import hashed_text, read_json, special_tokens, vocabulary


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "name.bin"

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def write(self, documents, vocabulary_size=1000):
        with TokenFile(self.path, vocabulary_size) as out:
            for ids, trained in documents:
                out.begin_document()
                out.write(ids, trained)
            out.publish("xxh3-128:00", [pathlib.Path("a.txt")])

    def test_tokens_of_16_bits_with_documents_and_mask(self):
        self.write([([7, 8, 999], b"\0\1\1"), ([9], b"\1")], vocabulary_size=2**16)
        data = self.path.read_bytes()
        self.assertEqual(data[:12], struct.pack("<3i", 20240520, 1, 4))
        self.assertEqual(data[12:1024], bytes(1012))
        self.assertEqual(data[1024:], struct.pack("<4H", 7, 8, 999, 9))
        self.assertEqual((self.folder / "name.mask").read_bytes(), b"\0\1\1\1")
        documents = (self.folder / "name.docs").read_bytes()
        self.assertEqual(documents, b"STRATADC" + struct.pack("<3Q", 2, 0, 3))
        self.assertEqual(
            json.loads((self.folder / "name.json").read_text()),
            {
                "format": "strata tokens",
                "version": 1,
                "tokenizer": "xxh3-128:00",
                "tokens": 4,
                "documents": 2,
                "trained_tokens": 3,
                "source_files": 1,
                "sources": ["a.txt"],
            },
        )

    def test_tokens_of_32_bits_for_a_larger_vocabulary(self):
        self.write([([7, 65536], b"\1\1")], vocabulary_size=2**16 + 1)
        data = self.path.read_bytes()
        self.assertEqual(data[:12], struct.pack("<3i", 20240801, 7, 2))
        self.assertEqual(data[1024:], struct.pack("<2I", 7, 65536))

    def test_without_documents_and_untrained_tokens_these_files_are_not_there(self):
        self.write([([7], b"\0")])
        with TokenFile(self.path, 1000) as out:
            out.write([1, 2], b"\1\1")
            out.publish("", [])
        self.assertEqual(self.names(), ["name.bin", "name.json"])

    def test_nothing_stays_of_what_was_not_finished(self):
        with self.assertRaises(KeyError), TokenFile(self.path, 1000) as out:
            out.write([1], b"\1")
            raise KeyError
        self.assertEqual(self.names(), [])

    def test_an_earlier_file_stays_until_there_is_another(self):
        self.write([([7], b"\1")])
        before = self.path.read_bytes()
        with self.assertRaises(UsageError), TokenFile(self.path, 1000) as out:
            out.publish("", [])  # of no tokens
        self.assertEqual(self.path.read_bytes(), before)

    def test_what_others_wrote_is_not_replaced(self):
        foreign = {".json": b'{"text": "a"}', ".docs": b"notes", ".mask": b"\2", ".bin": b"PK"}
        for suffix, contents in foreign.items():
            path = self.path.with_suffix(suffix)
            path.write_bytes(contents)
            with self.subTest(suffix), self.assertRaisesRegex(UsageError, f"{path} would be"):
                TokenFile(self.path, 1000)
            self.assertEqual(self.names(), [path.name])
            path.unlink()

    def test_of_many_sources_some_are_named(self):
        with TokenFile(self.path, 1000) as out:
            out.write([1], b"\1")
            out.publish("", [pathlib.Path(os.fsdecode(b"\xff"))] * 10**5)
        written = self.path.with_suffix(".json").read_bytes()
        self.assertLess(len(written), 2**20)  # what Strata reads
        self.assertEqual(json.loads(written)["source_files"], 10**5)

    def test_a_folder_is_no_name(self):
        for name in (".", ".."):
            with self.subTest(name), self.assertRaisesRegex(UsageError, "is a folder"):
                TokenFile(pathlib.Path(name), 1000)

    def test_the_name_may_lack_its_ending_and_its_folder_be_missing(self):
        folder = self.folder / "new" / "tokens"
        with TokenFile(folder / "v1.2", 1000) as out:
            out.write([1], b"\1")
            out.publish("", [])
        self.assertEqual(sorted(folder.iterdir()), [folder / "v1.2.bin", folder / "v1.2.json"])


class Vocabulary(unittest.TestCase):
    def test_of_pairs_an_added_token_wins_and_ids_may_have_gaps(self):
        added = [{"id": 1, "content": "</s>", "special": True}]
        contents = {"model": {"vocab": {"é": 10, "b": 1, "a": 0}}, "added_tokens": added}
        expected = "0 a\n1 </s>\n10 é\n".encode()
        self.assertEqual(hashed_text(vocabulary(contents)), expected)

    def test_of_a_list_with_scores(self):
        contents = {"model": {"vocab": [["<unk>", 0.0], ["a", -1.5]]}, "added_tokens": []}
        self.assertEqual(hashed_text(vocabulary(contents)), b"0 <unk>\n1 a\n")

    def test_the_longest_special_token_is_found_first_and_others_are_not(self):
        added = [
            {"id": 1, "content": "<|a|>", "special": True},
            {"id": 2, "content": "<|a|>b", "special": True},
            {"id": 3, "content": "<think>", "special": False},
        ]
        special = special_tokens({"added_tokens": added})
        self.assertEqual(special.findall("<think><|a|>b<|a|>"), ["<|a|>b", "<|a|>"])
        self.assertIsNone(special_tokens({}).search("any <s>"))

    def test_what_is_no_json_object_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tokenizer_config.json"
            self.assertEqual(read_json(path), {})
            for contents in ("[]", "{", "[" * 100000):
                path.write_text(contents)
                with self.subTest(contents[:9]), self.assertRaisesRegex(UsageError, str(path)):
                    read_json(path)


if __name__ == "__main__":
    unittest.main()

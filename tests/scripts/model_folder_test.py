"""Where the tokenizer of a model is: its folder, a run's, the Hugging Face cache."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

from strata_tokens.errors import UsageError
from strata_tokens.model_folder import hub_cache, tokenizer_folder


class ModelFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        cache = mock.patch.dict(os.environ, HF_HUB_CACHE=str(self.folder / "hub"))
        cache.start()
        self.addCleanup(cache.stop)

    def make(self, path):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
        return path.parent

    def test_a_model_folder_and_the_one_that_a_run_keeps(self):
        model = self.make("model-of-mine/tokenizer.json")
        kept = self.make("run/model/tokenizer.json")
        self.assertEqual(tokenizer_folder(str(model)), model)
        self.assertEqual(tokenizer_folder(str(self.folder / "run")), kept)

    def test_a_name_is_the_cached_snapshot_of_the_main_branch(self):
        repository = "hub/models--org--name-1.5"
        (self.make(f"{repository}/refs/main") / "main").write_text("abc\n")
        self.make(f"{repository}/snapshots/old/tokenizer.json")
        snapshot = self.make(f"{repository}/snapshots/abc/tokenizer.json")
        self.assertEqual(tokenizer_folder("org/name-1.5"), snapshot)

    def test_what_is_not_there_is_refused_saying_what_to_do(self):
        cases = {
            "org/name": "download it: hf download org/name",
            "./org/name": r"there is no folder \./org/name$",
            str(self.folder): "has no tokenizer.json",
        }
        for model, message in cases.items():
            with self.subTest(model), self.assertRaisesRegex(UsageError, message):
                tokenizer_folder(model)

    def test_the_cache_is_where_hugging_face_has_it(self):
        cases = (
            ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
            ({"HF_HOME": "/b", "XDG_CACHE_HOME": "/c"}, "/b/hub"),
            ({"XDG_CACHE_HOME": "/c", "HOME": "/d"}, "/c/huggingface/hub"),
            ({"HOME": "/d"}, "/d/.cache/huggingface/hub"),
        )
        for variables, cache in cases:
            with self.subTest(cache), mock.patch.dict(os.environ, variables, clear=True):
                self.assertEqual(hub_cache(), pathlib.Path(cache))


if __name__ == "__main__":
    unittest.main()

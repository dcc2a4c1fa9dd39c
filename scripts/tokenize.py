#!/usr/bin/env python3
r"""Turns text and records into the token files that Strata trains on.

    scripts/tokenize.py FILE… --tokenizer FOLDER --out NAME [options]

With the tokenizer.json of a model folder, it writes NAME.bin (llm.c's format), and beside it
NAME.mask (which tokens are trained), NAME.docs (where documents begin) and NAME.json (whose tokens
these are).

A line of a .jsonl file, or a row of a .parquet file (which needs pyarrow), is a document. It has
    {"text": …}                                      all of it is trained
    {"prompt": …, "completion": …}                   the completion and its end token are trained
    {"question": …, "answer": …}                     likewise
    {"instruction": …, "input": …, "output": …}      likewise; the input may be missing or empty
    {"messages": [{"role": …, "content": …}, …]}     through the folder's chat template; trained are
    {"conversations": [{"from": …, "value": …}, …]}  the assistant's turns with their end tokens
Other files are text: one long document each, all of it trained.

A line that cannot be used, or whose trained part cannot be told exactly from the rest, is reported
as FILE:LINE; then nothing is written, or with --skip-malformed everything else.

Needs: python3 -m venv VENV && VENV/bin/pip install tokenizers transformers jinja2 xxhash
"""

import os
import sys

if __name__ == "__main__":
    # Beside this file, Python would find it in place of its own module of the same name.
    sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
    from strata_tokens.command import main

    sys.exit(main(__doc__))
else:
    # Imported by a script of this folder that looks for Python's own module: be that one.
    with open(
        os.path.join(os.path.dirname(os.__file__), "tokenize.py"), encoding="utf-8"
    ) as module:
        exec(compile(module.read(), module.name, "exec"))  # noqa: S102

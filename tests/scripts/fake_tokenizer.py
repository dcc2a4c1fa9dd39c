"""A tokenizer of few words, whose tokens and templates are plain to see."""

import re

from strata_tokens.errors import LineError, UsageError

BEGIN, END, START = 1, 2, 3
SPECIAL = {"<s>": BEGIN, "</s>": END, "<|turn|>": START}
# A special token, a word with the space before it, or one character. "\n\n" is one token.
TOKENS = re.compile(r"</?s>|<\|turn\|>|\n\n| ?\w+|.", re.DOTALL)


class FakeTokenizer:
    def __init__(self, template=None, begins=False):
        self._ids = dict(SPECIAL)
        self._template = template
        self._begins = begins

    special = re.compile("|".join(map(re.escape, SPECIAL)))
    size = 1000
    end = END

    def hash(self):
        return "xxh3-128:00"

    def beginning(self):
        return [BEGIN] if self._begins else []

    def encode(self, text):
        return [self._ids.setdefault(t, 10 + len(self._ids)) for t in TOKENS.findall(text)]

    def encode_batch(self, texts):
        return [self.encode(text) for text in texts]

    def text_of(self, ids):
        texts = {id: text for text, id in self._ids.items()}
        return "".join(texts[id] for id in ids)

    def load_chat_template(self):
        if self._template is None:
            raise UsageError("no chat template")

    def render(self, messages, for_reply=False):
        return self._template(messages, for_reply)


def turns(messages, for_reply):
    """As ChatML: <|turn|>user\nHello</s>\n"""
    text = "".join(f"<|turn|>{m['role']}\n{m['content']}</s>\n" for m in messages)
    return text + ("<|turn|>assistant\n" if for_reply else "")


def turns_without_end(messages, for_reply):
    text = "".join(f"<|turn|>{m['role']}\n{m['content']}\n\n" for m in messages)
    return text.replace("<|turn|>", "# ") + ("# assistant\n" if for_reply else "")


def last_turn_thinks(messages, for_reply):
    """As Qwen3: only the last turn shows that it thinks."""
    last = len(messages) - 1
    shown = [
        m | {"content": "(thinks)" + m["content"]} if i == last and m["role"] == "assistant" else m
        for i, m in enumerate(messages)
    ]
    return turns(shown, for_reply)


def without_prompt(messages, for_reply):
    return turns(messages, for_reply=False)


def answers_at_once(messages, for_reply):
    """As Mistral's: a user's turn ends with the prompt for the answer."""
    written = {"user": "ask {}\n", "assistant": "{}</s>"}
    return "".join(written[m["role"]].format(m["content"]) for m in messages)


def ends_the_text(messages, for_reply):
    """As Phi-3: after the last turn's end token comes another."""
    return turns(messages, for_reply) + ("" if for_reply else "<s>")


def headers(messages, for_reply):
    """As Llama 3: a header between special tokens, two line ends, and the content stripped."""
    text = "".join(f"<|turn|>{m['role']}<s>\n\n{m['content'].strip()}</s>" for m in messages)
    return text + ("<|turn|>assistant<s>\n\n" if for_reply else "")


def begins_before_it_speaks(messages, for_reply):
    text = "".join(f"<|turn|>{m['role']}\n<s>{m['content']}\n" for m in messages)
    return text + ("<|turn|>assistant\n" if for_reply else "")


def leaves_out_thoughts(messages, for_reply):
    spoken = [m | {"content": m["content"].split("</think>")[-1]} for m in messages]
    return turns(spoken, for_reply)


def forgets_its_prompt(messages, for_reply):
    text = "".join(f"{m['role']}: {m['content']}</s>" for m in messages)
    return text + ("<|turn|>" if for_reply else "")


def refuses(messages, for_reply):
    raise LineError("the chat template refuses this conversation: roles must alternate")

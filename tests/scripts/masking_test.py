"""Which tokens of a record are trained: prompts, completions, turns; and what is refused."""

import unittest

import fake_tokenizer
from fake_tokenizer import BEGIN, END, FakeTokenizer
from strata_tokens.errors import LineError
from strata_tokens.masking import Rules, Train, document_of
from strata_tokens.records import Completion, Conversation, Text


def conversation(*contents):
    roles = ("user", "assistant")
    return Conversation([{"role": roles[i % 2], "content": c} for i, c in enumerate(contents)])


def trained_runs(document, tokenizer):
    """The texts of the runs of trained tokens."""
    runs, run = [], []
    for id, trained in zip([*document.ids, 0], [*document.trained, 0], strict=True):
        if trained:
            run.append(id)
        elif run:
            runs.append(tokenizer.text_of(run))
            run = []
    return runs


class TextAndCompletions(unittest.TestCase):
    def test_all_of_a_text_is_trained_with_its_end_token(self):
        tokenizer = FakeTokenizer(begins=True)
        document = document_of(Text("once upon"), tokenizer, Rules(end=END))
        self.assertEqual(document.ids, [BEGIN, *tokenizer.encode("once upon"), END])
        self.assertEqual(document.trained, b"\1" * 4)

    def test_the_completion_and_its_end_token_are_trained(self):
        tokenizer = FakeTokenizer(begins=True)
        document = document_of(Completion("1 plus 1?", "it is 2"), tokenizer, Rules(end=END))
        self.assertEqual(tokenizer.text_of(document.ids), "<s>1 plus 1?\nit is 2</s>")
        self.assertEqual(trained_runs(document, tokenizer), ["it is 2</s>"])

    def test_without_an_end_token_none_is_written(self):
        tokenizer = FakeTokenizer()
        document = document_of(Completion("a", "b"), tokenizer, Rules())
        self.assertEqual(tokenizer.text_of(document.ids), "a\nb")

    def test_the_template_surrounds_the_prompt(self):
        tokenizer = FakeTokenizer()
        rules = Rules(template="Q: {prompt}\nA:")
        document = document_of(Completion("why", " so {prompt}"), tokenizer, rules)
        self.assertEqual(tokenizer.text_of(document.ids), "Q: why\nA: so {prompt}")
        self.assertEqual(trained_runs(document, tokenizer), [" so {prompt}"])

    def test_a_token_across_the_end_of_the_prompt_is_refused(self):
        with self.assertRaisesRegex(LineError, "a token spans the end of the prompt"):
            document_of(Completion("a", "\nb"), FakeTokenizer(), Rules())

    def test_everything_is_trained_on_request(self):
        rules = Rules(end=END, train=Train.EVERYTHING)
        for completion in ("b", "\nb"):  # of the second, a token spans the end of the prompt
            document = document_of(Completion("a", completion), FakeTokenizer(), rules)
            self.assertEqual(document.trained, b"\1" * len(document.ids))

    def test_special_tokens_are_the_templates_to_write(self):
        tokenizer = FakeTokenizer()
        for record in (Completion("a</s>", "b"), Completion("a", "b</s>c")):
            with self.subTest(record), self.assertRaisesRegex(LineError, "contains </s>"):
                document_of(record, tokenizer, Rules())
        rules = Rules(template="<|turn|>{prompt}\n")
        document = document_of(Completion("a", "b"), tokenizer, rules)
        self.assertEqual(tokenizer.text_of(document.ids), "<|turn|>a\nb")


class Conversations(unittest.TestCase):
    def test_every_turn_of_the_assistant_and_its_end_token_are_trained(self):
        tokenizer = FakeTokenizer(fake_tokenizer.turns)
        record = conversation("hi", "hello there", "more", "no")
        document = document_of(record, tokenizer, Rules(end=END))
        self.assertEqual(
            tokenizer.text_of(document.ids),
            "<|turn|>user\nhi</s>\n<|turn|>assistant\nhello there</s>\n"
            "<|turn|>user\nmore</s>\n<|turn|>assistant\nno</s>\n",
        )
        self.assertEqual(trained_runs(document, tokenizer), ["hello there</s>", "no</s>"])

    def test_a_prompt_with_its_completion_may_be_a_conversation(self):
        tokenizer = FakeTokenizer(fake_tokenizer.turns)
        document = document_of(Completion("hi", "yes"), tokenizer, Rules(as_chat=True))
        expected = document_of(conversation("hi", "yes"), tokenizer, Rules())
        self.assertEqual(document, expected)

    def trained(self, record, template, train=Train.ANSWERS):
        tokenizer = FakeTokenizer(template)
        return trained_runs(document_of(record, tokenizer, Rules(train=train)), tokenizer)

    def refused(self, record, template, message):
        with self.assertRaisesRegex(LineError, message):
            document_of(record, FakeTokenizer(template), Rules())

    def test_a_template_that_rewrites_earlier_turns_trains_the_last(self):
        template = fake_tokenizer.last_turn_thinks
        self.assertEqual(self.trained(conversation("a", "b"), template), ["(thinks)b</s>"])
        record = conversation("a", "b", "c", "d")
        self.refused(record, template, "message 2: the chat template writes this turn otherwise")
        self.assertEqual(self.trained(record, template, Train.LAST_ANSWER), ["(thinks)d</s>"])

    def test_everything_is_trained_on_request_whatever_the_template(self):
        record = conversation("a", "b", "c", "d")
        template = fake_tokenizer.last_turn_thinks
        text = template(record.messages, for_reply=False)
        self.assertEqual(self.trained(record, template, Train.EVERYTHING), [text])

    def test_of_the_last_turns_only_the_assistants_are_trained(self):
        record = conversation("a", "b", "c", "d", "e")
        template = fake_tokenizer.turns
        self.assertEqual(self.trained(record, template, Train.LAST_ANSWER), ["d</s>"])

    def test_a_turn_ends_with_the_first_end_token_after_it(self):
        record = conversation("a", "b", "c", "d")
        self.assertEqual(self.trained(record, fake_tokenizer.ends_the_text), ["b</s>", "d</s>"])

    def test_a_header_that_ends_with_two_line_ends_in_one_token(self):
        record = conversation("a", " b c\n", "d", "e")
        self.assertEqual(self.trained(record, fake_tokenizer.headers), ["b c</s>", "e</s>"])

    def test_a_template_without_a_prompt_has_to_answer_at_once(self):
        record = conversation("a", "b", "c", "d")
        template = fake_tokenizer.answers_at_once
        self.assertEqual(self.trained(record, template), ["b</s>", "d</s>"])
        self.refused(record, fake_tokenizer.without_prompt, "message 2: .* has no prompt for")

    def test_a_template_that_does_not_write_the_content_before_the_end_token_is_refused(self):
        template = fake_tokenizer.begins_before_it_speaks
        self.refused(conversation("a", "b"), template, "message 2: .* writes <s> before it")
        record = conversation("a", "<think>well</think>b")
        self.refused(record, fake_tokenizer.leaves_out_thoughts, "leaves out some of it")

    def test_the_assistant_does_not_speak_first(self):
        record = Conversation(conversation("a", "b", "c").messages[1:])
        self.refused(record, fake_tokenizer.turns, "message 1: the assistant speaks first")

    def test_a_template_without_end_tokens_is_refused(self):
        self.refused(conversation("a", "b"), fake_tokenizer.turns_without_end, "no end token")

    def test_a_template_that_does_not_keep_to_its_prompt_is_refused(self):
        template = fake_tokenizer.forgets_its_prompt
        self.refused(conversation("a", "b"), template, "after its own prompt")

    def test_what_the_template_refuses_is_refused(self):
        self.refused(conversation("a", "b"), fake_tokenizer.refuses, "roles must alternate")

    def test_a_token_across_the_beginning_of_a_turn_is_refused(self):
        self.refused(conversation("a", "\nb"), fake_tokenizer.turns, "prompt of message 2")

    def test_special_tokens_in_a_message_are_refused(self):
        self.refused(conversation("a", "b</s>c"), fake_tokenizer.turns, "contains </s>")

    def test_without_the_assistant_there_is_nothing_to_train(self):
        self.refused(conversation("a"), fake_tokenizer.turns, "no turn of the assistant")


if __name__ == "__main__":
    unittest.main()

"""The writer over a chat model that is a plain function: what is asked again, and what is told."""

from collections.abc import Callable, Sequence

import pytest

from understudy.backends.chat.chat_writer import ChatWriter, Variation
from understudy.backends.chat.prompt_templates import Messages, load_prompts
from understudy.core.errors import BackendError

CAPTIONS = [f"a {colour} dog sleeps on the old sofa" for colour in ("red", "blue", "white", "grey")]


class Scripted:
    """Answers by conversation and seed, and remembers what it was asked."""

    def __init__(self, answer: Callable[[Messages, int, int], str]) -> None:
        self.answer = answer
        self.calls: list[list[tuple[str, int]]] = []

    def __call__(self, conversations: Sequence[Messages], seeds: Sequence[int]) -> list[str]:
        call = len(self.calls)
        self.calls.append(
            [(one[-1]["content"], seed) for one, seed in zip(conversations, seeds, strict=True)]
        )
        return [
            self.answer(one, seed, call) for one, seed in zip(conversations, seeds, strict=True)
        ]


def writer(
    answer: Callable[[Messages, int, int], str], *, tries: int = 4, variation: Variation = "mixed"
) -> tuple[ChatWriter, Scripted]:
    chat = Scripted(answer)
    prompts = load_prompts("default")
    return ChatWriter(chat, prompts, name="scripted", tries=tries, variation=variation), chat


def good(_: Messages, seed: int, __: int) -> str:
    return CAPTIONS[seed % len(CAPTIONS)]


def test_good_answers_are_asked_for_once() -> None:
    made, chat = writer(good)
    captions = made.write(6, seed=3)
    assert set(captions) <= set(CAPTIONS)
    assert (made.malformed, made.asked, len(chat.calls)) == (0, 6, 1)


def test_malformed_answers_are_counted_and_asked_again_with_another_seed() -> None:
    def second_time(messages: Messages, seed: int, call: int) -> str:
        return good(messages, seed, call) if call else "I'm sorry, I can't do that."

    made, chat = writer(second_time)
    assert set(made.write(5)) <= set(CAPTIONS)
    assert made.faults == {"refusal": 5}
    assert made.malformed == 5
    assert made.asked == 10
    first, second = ({seed for _, seed in call} for call in chat.calls)
    assert not first & second


def test_only_the_rows_that_failed_are_asked_again() -> None:
    def odd_fails(messages: Messages, seed: int, call: int) -> str:
        return "" if call == 0 and seed % 2 else good(messages, seed, call)

    made, chat = writer(odd_fails)
    captions = made.write(12, seed=1)
    failed = sum(seed % 2 for _, seed in chat.calls[0])
    assert 0 < failed < 12
    assert len(chat.calls[1]) == failed
    assert made.faults == {"empty": failed}
    kept = [CAPTIONS[seed % 4] for _, seed in chat.calls[0] if not seed % 2]
    assert [
        caption for caption, (_, seed) in zip(captions, chat.calls[0], strict=True) if not seed % 2
    ] == kept


def test_writing_from_nothing_fails_loudly_after_the_tries() -> None:
    made, chat = writer(lambda *_: "Sure, here is a caption:", tries=3)
    with pytest.raises(BackendError) as raised:
        made.write(4)
    told = str(raised.value)
    assert "4 of 4 captions were still malformed after 3 tries" in told
    assert "12 introduction only" in told
    assert "'Sure, here is a caption:'" in told
    assert "default" in told
    assert len(chat.calls) == 3


def test_a_variation_that_fails_leaves_the_text_as_it_was() -> None:
    def no_cats(messages: Messages, seed: int, call: int) -> str:
        return "" if "elephant" in messages[-1]["content"] else good(messages, seed, call)

    made, _ = writer(no_cats, tries=2, variation="rephrase")
    texts = ["a grey elephant stands in the yard", "a dog lies on the bed"]
    varied = made.vary(texts, degree=0.5)
    assert varied[0] == texts[0]
    assert varied[1] in CAPTIONS
    assert made.faults == {"empty": 2}

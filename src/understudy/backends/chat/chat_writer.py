"""A writer of captions over any chat model: what to ask, what to make of the answers.

The model is one function from conversations to answers, so that local models (`language`) and
models behind a network share all of this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from understudy.backends.chat.answers import MalformedAnswer, read_answer
from understudy.backends.chat.prompt_templates import DEFAULT, Messages, WriterPrompts
from understudy.backends.plugin import PositiveCount
from understudy.core.errors import BackendError
from understudy.core.option import Option
from understudy.core.types import Texts

Chat = Callable[[Sequence[Messages], Sequence[int]], list[str]]
"""Conversations and a seed each to one answer each. An answer depends on its own conversation and
seed only, so that batches may be put together in any way."""


Variation = Literal["mixed", "rephrase", "blanks"]
"""How a text is varied; mixed is one of the ways that the prompts have, at random for each."""

Question = tuple[Messages, tuple[int, int], str | None]
"""A conversation, the fewest and most words of its caption, and the text it must not repeat."""


@dataclass(frozen=True)
class SamplingOptions:
    """Options of every chat model that writes captions.

    Attributes:
        prompts: Prompts of this package by name, or a YAML file (`prompt_templates`).
        temperature: Of the sampling; 0 takes the likeliest word always.
        top_p: Words are drawn from the likeliest ones that hold this share of the probability.
        tokens: Most tokens of an answer.
        tries: How often one caption is asked for before giving up.
        variation: How a caption is varied.
    """

    prompts: str = DEFAULT
    temperature: Annotated[float, Option("", least=0, most=5)] = 1.0
    top_p: Annotated[float, Option("", above=0, most=1)] = 0.95
    tokens: PositiveCount = 160
    tries: PositiveCount = 4
    variation: Variation = "mixed"


class ChatWriter:
    """RANDOM_API and VARIATION_API of text Private Evolution (Aug-PE, SPTI).

    Malformed answers are counted and asked for again, never passed on; a caption is asked for
    ``tries`` times at most.
    """

    def __init__(
        self,
        chat: Chat,
        prompts: WriterPrompts,
        *,
        name: str,
        licence: str = "unknown",
        tries: int = 4,
        variation: Variation = "mixed",
    ) -> None:
        self.name, self.licence = name, licence
        self.asked = self.unchanged = 0  # answers, and texts that got no variation
        self.faults: Counter[str] = Counter()
        self._chat, self._prompts, self._tries = chat, prompts, tries
        self._ways = prompts.ways if variation == "mixed" else (variation,)
        if not set(self._ways) <= set(prompts.ways):
            raise BackendError(
                f"{name}: the prompts {prompts.name} have no {variation}; they have "
                f"{' and '.join(prompts.ways)}"
            )

    @property
    def malformed(self) -> int:
        """Malformed answers so far."""
        return self.faults.total()

    def write(self, count: int, *, label: str | None = None, seed: int = 0) -> list[str]:
        """``count`` captions from nothing, of a class if one is given.

        Row i depends on ``label``, ``seed`` and i.
        """
        if count < 0:
            raise BackendError(f"{self.name}: cannot write {count} captions")
        before = self.malformed

        def question(row: int, rng: np.random.Generator) -> Question:
            return self._prompts.write(label, rng), self._prompts.words, None

        texts, last = self._ask(list(range(count)), question, seed)
        missing = sorted(last)
        if missing:
            faults = ", ".join(f"{number} {why}" for why, number in self.faults.most_common())
            raise BackendError(
                f"{self.name}: {len(missing)} of {count} captions were still malformed after "
                f"{self._tries} tries ({self.malformed - before} malformed answers; in all "
                f"{faults}). One of them: {last[missing[0]][:200]!r}. Change the prompts "
                f"({self._prompts.name}), the temperature, or the model"
            )
        return [texts[row] for row in range(count)]

    def vary(self, texts: Texts, *, degree: float = 0.5, seed: int = 0) -> list[str]:
        """One variation a text; a text whose answers were all malformed is given back unchanged.

        ``degree`` in [0, 1] is how much of a text may change; 0 gives the texts back.
        """
        if not 0 <= degree <= 1:
            raise BackendError(f"{self.name}: degree must be in [0, 1], found {degree}")
        rows = [row for row, text in enumerate(texts) if degree > 0 and text.strip()]

        def question(row: int, rng: np.random.Generator) -> Question:
            text, way = texts[row], self._ways[int(rng.integers(len(self._ways)))]
            length, (fewest, most) = len(text.split()), self._prompts.words
            # Blanks may well be filled with the words that stood there.
            original = text if way == "rephrase" else None
            messages = self._prompts.vary(text, degree, way, rng)
            return messages, (min(fewest, length), max(most, length)), original

        variations, last = self._ask(rows, question, seed)
        self.unchanged += len(last)
        return [variations.get(row, text) for row, text in enumerate(texts)]

    def _ask(
        self, rows: list[int], question: Callable[[int, np.random.Generator], Question], seed: int
    ) -> tuple[dict[int, str], dict[int, str]]:
        """Ask until every row has a caption or the tries are used up."""
        texts: dict[int, str] = {}
        last: dict[int, str] = {}
        for attempt in range(self._tries):
            pending = [row for row in rows if row not in texts]
            if not pending:
                break
            seeds = [np.random.SeedSequence((seed % 2**64, row, attempt)) for row in pending]
            questions = [
                question(r, np.random.default_rng(s)) for r, s in zip(pending, seeds, strict=True)
            ]
            # The model's own draws must not repeat those that chose the style and the blanks.
            numbers = [int(one.spawn(1)[0].generate_state(1)[0] >> 1) for one in seeds]
            answers = self._chat([messages for messages, _, _ in questions], numbers)
            if len(answers) != len(pending):
                raise BackendError(
                    f"{self.name} gave {len(answers)} answers to {len(pending)} questions"
                )
            self.asked += len(answers)
            for row, question_of, answer in zip(pending, questions, answers, strict=True):
                messages, words, original = question_of
                prompt = "\n".join(message["content"] for message in messages)
                try:
                    texts[row] = read_answer(answer, words, prompt=prompt, original=original)
                    last.pop(row, None)
                except MalformedAnswer as fault:
                    self.faults[str(fault)] += 1
                    last[row] = answer
        return texts, last


def whole_lines(answer: str) -> str:
    """What an answer cut off at its limit says in lines that are complete."""
    return answer.rpartition("\n")[0]

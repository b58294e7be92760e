from pathlib import Path

import numpy as np
import pytest

from understudy.backends.chat.prompt_templates import blanked, load_prompts, prompt_names
from understudy.core.errors import BackendError

TEXT = "A small, brown dog sleeps on a child's red sofa."
GOOD = """
about: mine
words: [3, 9]
keywords: [cat]
write: "Write of {{ keyword }}{% if label %} as {{ label }}{% endif %} in {{ words }} words"
blanks:
  system: Fill in.
  user: "Blanks: {{ text }}"
"""


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", prompt_names())
def test_every_packaged_prompt_says_what_it_should(name: str) -> None:
    prompts = load_prompts(name)
    assert prompts.about
    assert set(prompts.ways) == {"rephrase", "blanks"}
    plain = prompts.write(None, rng())[-1]["content"]
    assert "None" not in plain
    assert "{" not in plain
    assert "zebra" in prompts.write("zebra", rng())[-1]["content"]
    assert TEXT in prompts.vary(TEXT, 0.3, "rephrase", rng())[-1]["content"]
    holes = prompts.vary(TEXT, 0.3, "blanks", rng())[-1]["content"]
    assert TEXT not in holes
    assert "_" in holes
    roles = [message["role"] for message in prompts.write(None, rng())]
    assert roles == ["system", "user"]


def test_lengths_asked_for_lie_within_the_limits(tmp_path: Path) -> None:
    prompts = load_prompts(written(tmp_path, GOOD))
    words = {int(prompts.write(None, rng(seed))[0]["content"].split()[-2]) for seed in range(60)}
    assert min(words) >= 3
    assert max(words) <= 9
    assert len(words) > 2


def test_a_class_is_refused_where_the_templates_mention_none(tmp_path: Path) -> None:
    told = written(tmp_path, "write: Write one.\nrephrase: 'Again: {{ text }}'\n")
    prompts = load_prompts(told)
    assert prompts.write(None, rng())
    with pytest.raises(BackendError, match=r"cannot be asked for a class.*'dog'"):
        prompts.write("dog", rng())


def test_templates_reach_nothing_but_their_variables(tmp_path: Path) -> None:
    for reach, words in (
        ("text.__class__.__mro__[1]", "unsafe"),
        ("text | length / 0", "filled in"),
    ):
        prompts = load_prompts(written(tmp_path, f'write: a\nrephrase: "{{{{ {reach} }}}}"\n'))
        with pytest.raises(BackendError, match=words):
            prompts.vary("a", 0.5, "rephrase", rng())


@pytest.mark.parametrize(("share", "blanks"), [(0.0, 1), (0.1, 1), (0.5, 5), (0.55, 6), (1.0, 10)])
def test_a_share_of_the_words_becomes_blanks(share: float, blanks: int) -> None:
    text = blanked(TEXT, share, rng())
    assert text.count("_") == blanks
    assert len(text.split()) == 10
    assert text.endswith(".")
    for word, before in zip(text.split(), TEXT.split(), strict=True):
        assert word == before or word.strip("_") in {"", ",", "."}

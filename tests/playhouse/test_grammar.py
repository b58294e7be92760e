"""Captions name attributes, and reading them gives the attributes back."""

import random
import re

from hypothesis import given
from hypothesis import strategies as st

from understudy.playhouse.attributes import LARGE, SMALL, TARGETS, values_of
from understudy.playhouse.grammar import ATTRIBUTES, describe, read_caption


@st.composite
def attributes(draw):
    """Anything the world can show, and what only homes show besides."""
    target = draw(st.sampled_from(TARGETS))
    found = {key: draw(st.sampled_from(values)) for key, values in values_of(target).items()}
    if target == "dog" and draw(st.booleans()):
        found["pattern"] = draw(st.sampled_from(sorted(ATTRIBUTES["pattern"])))
        found["collar"] = draw(st.sampled_from(sorted(ATTRIBUTES["collar"])))
    names = draw(st.sets(st.sampled_from(LARGE + SMALL)))
    if names:
        found["furniture"] = ", ".join(name for name in LARGE + SMALL if name in names)
    return found


@given(attributes(), st.integers(0, 2**32))
def test_a_full_caption_reads_back_as_its_attributes(known, seed):
    assert read_caption(describe(known, random.Random(seed), detail=1.0)) == known


@given(attributes(), st.integers(0, 2**32))
def test_any_caption_says_nothing_wrong(known, seed):
    caption = describe(known, random.Random(seed))
    found = read_caption(caption)
    assert found.items() <= known.items()
    assert found["target"] == known["target"]
    assert found.get("status") == known.get("status")
    assert caption == caption.strip()
    assert not re.search(r"\s,|\s\s|,,|\{|\ba [aeiou]", caption)

"""The embedded writer of captions, held against the playhouse whose words it uses."""

import pytest
from scripts import write_grammar

from understudy.backends.embedded.writer import GrammarOptions, GrammarWriter, complete, described
from understudy.backends.phrase_grammar import read_phrases
from understudy.playhouse import attributes, grammar

MANY = 400


@pytest.fixture(scope="module")
def captions() -> list[str]:
    return GrammarWriter().write(MANY, seed=5)


def test_the_packaged_grammar_is_the_playhouses() -> None:
    """Where this fails, run ``python scripts/write_grammar.py``."""
    assert write_grammar.FILE.read_text("utf-8") == write_grammar.text()


def test_the_playhouse_can_draw_what_is_varied(captions: list[str]) -> None:
    for degree in (0.3, 1.0):
        free = GrammarWriter(GrammarOptions(keep="target"))
        for caption in free.vary(captions, degree=degree, seed=1):
            said = grammar.read_caption(caption)
            attributes.check(said["target"], said)
            if "status" in said and "place" in said:
                key = f"{said['target']} {said['status']}"
                assert said["place"] in attributes.PLACES[key], caption


def test_describing_and_reading_are_inverse() -> None:
    import numpy as np

    ours, rng = read_phrases(), np.random.default_rng(0)
    for target in ours.possible:
        for _ in range(40):
            said = complete(ours, {"target": target}, rng)
            assert ours.read(described(ours, said, rng)) == said


def test_captions_differ_and_cover_every_value(captions: list[str]) -> None:
    assert len(set(captions)) > 0.9 * MANY
    said = [grammar.read_caption(caption) for caption in captions]
    for attribute in ("target", "status", "coat", "shirt", "place", "wall", "light"):
        known = {
            value
            for target in attributes.TARGETS
            for value in attributes.values_of(target).get(attribute, ())
        }
        assert {one[attribute] for one in said if attribute in one} == known, attribute


@pytest.mark.parametrize(
    ("label", "wanted"),
    [
        ("sleeping", {"target": "dog", "status": "sleeping"}),
        ("Reading", {"target": "person", "status": "reading"}),
        ("dog", {"target": "dog"}),
        ("bottle", {"target": "bottle"}),
        ("frame", {"target": "frame"}),
        ("two-objects", {"target": "two-objects"}),
        ("a brown dog", {"target": "dog", "coat": "brown"}),
        ("a person in a red shirt, walking", {"shirt": "red", "status": "walking"}),
    ],
)
def test_a_class_stands_in_every_caption(label: str, wanted: dict[str, str]) -> None:
    for caption in GrammarWriter().write(30, label=label, seed=2):
        said = grammar.read_caption(caption)
        assert said | wanted == said, caption


@pytest.mark.parametrize("degree", [0.1, 0.5, 1.0])
def test_the_share_of_attributes_that_change_is_the_degree(
    captions: list[str], degree: float
) -> None:
    changed, same = 0, 0
    for before, after in zip(captions, GrammarWriter().vary(captions, degree=degree), strict=True):
        old, new = grammar.read_caption(before), grammar.read_caption(after)
        for attribute in set(old) - {"target", "status"}:
            differs = old[attribute] != new.get(attribute)
            changed, same = changed + differs, same + (not differs)
    assert changed / (changed + same) == pytest.approx(degree, abs=0.07)


def test_variations_keep_the_class_and_tell_it_in_other_words(captions: list[str]) -> None:
    varied = GrammarWriter().vary(captions, degree=0.2, seed=9)
    for before, after in zip(captions, varied, strict=True):
        old, new = grammar.read_caption(before), grammar.read_caption(after)
        assert (old["target"], old.get("status")) == (new["target"], new.get("status"))
    assert sum(before != after for before, after in zip(captions, varied, strict=True)) > 300


def test_texts_of_another_world_are_given_back_and_counted() -> None:
    writer = GrammarWriter()
    texts = ["a zebra in the snow", "a brown dog sleeping", ""]
    varied = writer.vary(texts, degree=1.0)
    assert (varied[0], varied[2]) == ("a zebra in the snow", "")
    assert varied[1] != texts[1]
    assert writer.unread == 2

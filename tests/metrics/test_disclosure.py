"""Mutual information by parts: bias removed, joint messages, nothing sent is nothing read."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from understudy.core.types import Images, Masks
from understudy.metrics.disclosure import PartMessages, disclosed_information
from understudy.playhouse import Home
from understudy.playhouse.picture import DOG

SIZE = 48


def smooth(rng: np.random.Generator, n: int) -> Images:
    """Images whose neighbouring pixels are alike, as those of photos are."""
    fine = gaussian_filter(rng.normal(size=(n, SIZE, SIZE, 1)), (0, 3, 3, 0))
    fine = 127 + 60 * fine / fine.std() + rng.normal(0, 6, fine.shape)
    return np.clip(fine, 0, 255).astype(np.uint8)


def part(n: int) -> Masks:
    masks = np.zeros((n, SIZE, SIZE), dtype=bool)
    for row in range(n):
        masks[row, 10 + row % 7 : 30, 8 : 28 + row % 5] = True
    return masks


PHOTOS, OTHERS, ELSEWHERE = (smooth(np.random.default_rng(seed), 40) for seed in range(3))


def disclosed(*messages: tuple[Images, Images], parts: Masks | None = None):
    """Of the part, by pairs of a message of the photos and one of the other photos."""
    parts = part(40) if parts is None else parts
    mine, theirs = (tuple(side) for side in zip(*messages, strict=True)) if messages else ((), ())
    return disclosed_information(
        PartMessages(PHOTOS, parts, mine), PartMessages(OTHERS, parts, theirs)
    )


def test_the_photo_itself_discloses_all_but_the_bias() -> None:
    whole = disclosed((PHOTOS, OTHERS))
    assert whole.uncorrected == pytest.approx(1)
    assert 0.6 < whole.corrected.value < 1
    assert whole.photos == 40


@pytest.mark.slow
def test_no_message_and_a_constant_message_disclose_nothing_at_all() -> None:
    black = np.zeros_like(PHOTOS), np.zeros_like(PHOTOS)
    for messages in ((), (black,), (black, black)):
        nothing = disclosed(*messages)
        assert (nothing.corrected.value, nothing.uncorrected) == (0, 0)


def test_messages_that_have_nothing_to_do_with_the_photo_read_zero() -> None:
    nothing = disclosed((ELSEWHERE, np.roll(OTHERS, 7, axis=0)))
    assert nothing.uncorrected > 0.1  # what the plain estimate reads
    assert abs(nothing.corrected.value) < 0.015
    assert nothing.corrected.high - nothing.corrected.low < 0.03


def test_two_messages_together_disclose_what_neither_does_alone() -> None:
    rng = np.random.default_rng(3)
    key, secret, others, other_key = rng.integers(0, 2, (4, 6, SIZE, SIZE, 1), dtype=np.uint8) * 255

    def read(*messages: Images) -> float:
        result = disclosed_information(
            PartMessages(secret, part(6), messages),
            PartMessages(others, part(6), (other_key, others ^ other_key)[: len(messages)]),
        )
        return result.corrected.value

    assert abs(read(key)) < 0.02
    assert abs(read(secret ^ key)) < 0.02
    assert read(key, secret ^ key) > 0.95


@pytest.mark.slow
def test_nothing_is_disclosed_of_a_part_that_was_not_sent() -> None:
    rest = ~part(40)
    sent = PHOTOS * rest[..., None], OTHERS * rest[..., None]
    assert disclosed(sent).corrected.value == 0
    assert disclosed(sent, parts=rest).corrected.value > 0.5


@pytest.mark.slow
def test_what_was_not_sent_of_homes_reads_within_half_a_percent() -> None:
    """Other homes' photos tell nothing of a dog, and the estimate says so."""
    homes = [Home(number).draw(0) for number in range(60)]
    public = [Home(100 + number).draw(0) for number in range(60)]
    mine, others = (np.stack([one.image for one in each]) for each in (homes, public))
    dogs, other_dogs = (np.stack([one.segments == DOG for one in each]) for each in (homes, public))
    reading = disclosed_information(
        PartMessages(mine, dogs, (np.roll(mine, 20, axis=0),)),
        PartMessages(others, other_dogs, (np.roll(others, 3, axis=0),)),
    )
    assert reading.uncorrected > 0.08
    assert abs(reading.corrected.value) < 0.005

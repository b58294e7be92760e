"""Attacks on messages: what is there is read, what is not there is not."""

import numpy as np
import pytest

from understudy.core.types import Images, Labels
from understudy.metrics.message_attacks import camera_residuals, outline_attack, reidentification

HOMES, EACH = 20, 6


def holes(*, snapped: bool) -> tuple[Images, Labels, list[str]]:
    """Rooms of one colour a home, with a hole whose shape is the status."""
    rng = np.random.default_rng(1)
    statuses = rng.integers(0, 3, HOMES * EACH)
    homes = [f"home-{row // EACH}" for row in range(len(statuses))]
    colours = rng.integers(60, 256, (HOMES, 3))
    images = np.empty((len(statuses), 32, 32, 3), dtype=np.uint8)
    for row, status in enumerate(statuses):
        images[row] = colours[row // EACH]
        height, width = ((6, 18), (18, 6), (12, 12))[status]
        top, left = rng.integers(0, 33 - height), rng.integers(0, 33 - width)
        if snapped:
            images[row] = images[row] // 2
        else:
            images[row, top : top + height, left : left + width] = 0
    return images, statuses, homes


def test_the_shape_of_a_hole_is_read_and_a_snapped_one_is_not() -> None:
    images, statuses, homes = holes(snapped=False)
    features = np.stack([(images.max(axis=3) == 0).sum(axis=axis) > 0 for axis in (1, 2)])
    extents = features.sum(axis=2).T.astype(float)
    best, *_ = outline_attack(extents, statuses, homes)
    assert best.accuracy.value > 0.95
    assert best.accuracy.low > best.chance
    images, statuses, homes = holes(snapped=True)
    for result in outline_attack(images, statuses, homes):
        assert result.above_chance < 0.1
        assert result.accuracy.low < result.chance


def test_chance_is_the_commonest_status_of_the_other_homes() -> None:
    statuses = np.array([0, 0, 0, 1] * 10)
    homes = [f"home-{row // 4}" for row in range(40)]
    (one, two) = outline_attack(np.zeros((40, 3)), statuses, homes)
    assert one.chance == two.chance == 0.75
    assert one.accuracy.value == 0.75


def test_a_home_is_never_in_both_parts() -> None:
    """A message that names its home is of no use where each home has one status."""
    homes = [f"home-{row // 5}" for row in range(100)]
    statuses = np.arange(100) // 5 % 2
    features = np.eye(20)[np.arange(100) // 5]
    best, *_ = outline_attack(features, statuses, homes)
    assert best.accuracy.value < 0.7
    assert reidentification(features, homes).accuracy.value == 1


def test_the_home_is_recognised_by_its_colour_and_not_by_noise() -> None:
    images, _, homes = holes(snapped=False)
    colours = images.reshape(len(images), -1, 3).max(axis=1)
    assert reidentification(colours, homes).accuracy.value > 0.9
    noise = np.random.default_rng(0).integers(0, 256, images.shape, dtype=np.uint8)
    blind = reidentification(noise, homes)
    assert blind.chance == pytest.approx((EACH - 1) / (HOMES * EACH - 1))
    assert blind.accuracy.low < blind.chance < blind.accuracy.high
    alike = reidentification(np.zeros_like(images), homes)
    assert alike.accuracy.value <= 2 / HOMES


def test_what_differs_from_the_others_of_a_camera_is_the_hole() -> None:
    images, _, homes = holes(snapped=False)
    residuals = camera_residuals(images, homes)
    assert residuals.shape == (*images.shape[:3], 1)
    hole = images.max(axis=3) == 0
    unlike = residuals[..., 0] > 20
    assert (unlike & hole).sum() > 0.8 * hole.sum()
    assert (unlike & ~hole).mean() < 0.05

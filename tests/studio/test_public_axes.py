"""Axes of public images: along what tells classes apart, not along what photos differ in."""

import numpy as np

from understudy.core.types import Batch
from understudy.studio.public_axes import _Features

CLASS, POSE, REST = range(3)  # a number that tells classes apart, one that photos move, and another


def energies(numbers: int = 12) -> _Features:
    """What is known of 4,000 images of 40 classes, of which two more photos each are taken."""
    rng, result = np.random.default_rng(0), _Features(numbers)
    labels = np.repeat(np.arange(40), 100)
    rows = rng.standard_normal((len(labels), numbers))
    rows[:, CLASS] = 0.5 * rows[:, CLASS] + rng.standard_normal(40)[labels]
    rows[:, POSE] *= 3
    photos = [rows + 0.1 * rng.standard_normal(rows.shape) for _ in range(2)]
    for photo in photos:
        photo[:, POSE] = 3 * rng.standard_normal(len(rows))
    for part in np.split(np.arange(len(labels)), 8):
        batch = Batch(np.zeros((len(part), 1, 1, 3), np.uint8), labels[part])
        result.add(rows[part], batch, [photo[part] for photo in photos])
    return result


def test_the_first_axis_tells_classes_apart_and_the_last_is_what_photos_move() -> None:
    _, axes = energies().axes(12, 10, 2)
    first, last = (np.abs(axes[:, place]) / np.linalg.norm(axes[:, place]) for place in (0, -1))
    assert first[CLASS] > 0.95
    assert last[POSE] > 0.95


def test_images_vary_by_half_along_an_axis_and_more_along_the_first() -> None:
    known = energies()
    mean, axes = known.axes(6, 10, 2)
    deviations = np.sqrt(np.diag(axes.T.astype(float) @ known.images.moments().covariance @ axes))
    assert mean.shape == (12,)
    assert axes.shape == (12, 6)
    np.testing.assert_allclose(deviations.mean(), 0.5, rtol=1e-4)
    assert deviations.argmax() == 0


def test_no_axis_leaves_the_leading_directions() -> None:
    known = energies()
    _, axes = known.axes(6, 4, 2)
    _, vectors = np.linalg.eigh(known.images.moments().covariance[:-2, :-2])
    np.testing.assert_allclose(vectors[:, :-4].T @ axes[:-2], 0, atol=1e-6)
    assert np.linalg.matrix_rank(axes) == 6  # four directions, and two numbers that stay

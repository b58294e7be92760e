from __future__ import annotations

import numpy as np
import pytest

from understudy.steps.hints import LIMBS, edges, skeleton

pytest.importorskip("skimage")


def test_edges_lie_where_the_picture_changes() -> None:
    images = np.zeros((2, 32, 32, 3), dtype=np.uint8)
    images[0, :, 16:] = 200
    found = edges(images)
    assert found.shape == (2, 32, 32)
    assert set(np.unique(found)) == {0, 255}
    assert not found[1].any()
    columns = np.flatnonzero(found[0].any(axis=0))
    assert columns.min() >= 14
    assert columns.max() <= 17
    assert (found[0, 4:-4].max(axis=1) == 255).all()


def names_of(kind: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for limb in LIMBS[kind] for name in limb))


@pytest.mark.parametrize("kind", sorted(LIMBS))
def test_every_limb_is_drawn_in_its_own_colour(kind: str) -> None:
    names = names_of(kind)
    rng = np.random.default_rng(0)
    points = np.ones((len(names), 3), dtype=np.float32)
    points[:, :2] = rng.uniform(8, 120, (len(names), 2))
    one_by_one = []
    for limb in LIMBS[kind]:
        seen = points.copy()
        seen[[name not in limb for name in names], 2] = 0
        one_by_one.append(skeleton(seen, names, kind, (128, 128)))
    brightest = {tuple(sheet.reshape(-1, 3)[sheet.sum(axis=-1).argmax()]) for sheet in one_by_one}
    assert len(brightest) == len(LIMBS[kind])
    whole = skeleton(points, names, kind, (128, 128))
    assert ((whole > 0).any(axis=-1) == np.any(one_by_one, axis=(0, -1))).all()

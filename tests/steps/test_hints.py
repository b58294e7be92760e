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


def test_a_limb_lies_between_its_ends_and_nothing_is_drawn_of_what_is_not_seen() -> None:
    names = names_of("dog")
    points = np.zeros((len(names), 3), dtype=np.float32)
    points[names.index("hip")], points[names.index("tail")] = (10, 20, 1), (50, 20, 1)
    drawn = skeleton(points, names, "dog", (64, 64)).any(axis=-1)
    rows, columns = np.nonzero(drawn)
    assert 18 <= rows.min() <= rows.max() <= 22
    assert columns.min() in (9, 10, 11)
    assert columns.max() in (49, 50, 51)
    points[names.index("tail"), 2] = 0
    assert not skeleton(points, names, "dog", (64, 64)).any()


def test_the_limbs_name_keypoints_of_the_playhouse() -> None:
    pytest.importorskip("aggdraw")
    from understudy.playhouse.render import TARGET_KEYPOINTS

    for kind in LIMBS:
        assert set(names_of(kind)) <= set(TARGET_KEYPOINTS[kind])

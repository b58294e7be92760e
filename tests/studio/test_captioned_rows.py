"""What a studio can be trained on: the captioned images of a folder, such as a release's."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.core.types import Release, SyntheticBatch
from understudy.data import write_release


def rows_of(data, captions, side=8):
    pytest.importorskip("torch")
    from understudy.studio.train import captioned_rows

    return list(captioned_rows(data, captions, side))


@pytest.mark.parametrize("same", [False, True])
def test_a_captioned_release_is_what_a_studio_reads(tmp_path, same):
    """More rows than are read at a time, in an order that is not the folders'."""
    labels = np.arange(70) * 7 % 3
    images = np.zeros((70, 8, 8, 3), np.uint8) + np.arange(70, dtype=np.uint8)[:, None, None, None]
    texts = ["the same" if same else f'grey "{row}", déjà' for row in range(70)]
    batch = SyntheticBatch(labels, images=images, captions=texts)
    release = Release(
        "fake", ("a", "b", "c"), 70, lambda: iter([batch]), None, (8, 8, 3), captioned=True
    )
    write_release(release, tmp_path / "release")
    found = rows_of(tmp_path / "release", tmp_path / "release" / "captions.csv")
    assert [(int(row.image[0, 0, 0]), *row.captions) for row in found] == list(enumerate(texts))

"""The CLIP score of a release: of the right pairs, by encoders that read, and in an evaluation."""

import numpy as np
import pytest
from tests.methods.colour_world import NAMES, Eye, Painter

from understudy.core.types import Release, SyntheticBatch
from understudy.data import write_release
from understudy.data.captions import open_captioned
from understudy.evaluation.caption_adapter import measure_captions
from understudy.evaluation.embedding_pass import FeatureExtractor


def no_bars(words, total=None):
    return lambda rows: None


def written(place, images, captions, labels, format="png"):
    """A release, rows in the order they are given."""
    batch = SyntheticBatch(np.asarray(labels), images=images, captions=captions)
    shape = images.shape[1:]
    release = Release(
        "fake", ("cat", "dog"), len(images), lambda: iter([batch]), None, shape, captioned=True
    )
    return write_release(release, place, format=format)


@pytest.fixture
def painted(tmp_path):
    """A release of squares, each as its caption says; labels that are not in order."""
    captions = [f"a {name} thing" for name in NAMES * 5]
    images = Painter(noise=2).generate(captions)
    written(tmp_path / "squares", images, captions, np.arange(40) * 7 % 3 % 2)
    return open_captioned(tmp_path / "squares"), images.shape[1:]


def test_images_that_show_what_their_captions_say_score_highly(painted):
    found = measure_captions(*painted, FeatureExtractor("test:eye", Eye()), no_bars)
    score, others = found.values
    assert score.name == "CLIP score (test:eye)"
    assert others.name == "CLIP score (test:eye), captions shuffled"
    assert score.value > 99
    assert others.value < 40  # of eight colours, one is right by chance
    for one in found.values:
        assert (one.group, one.kind) == ("fidelity", "dp")
        assert one.low <= one.value <= one.high
    assert found.settings == {"rows_with_captions": 40}
    assert not found.left_out


def test_of_a_large_release_random_rows_are_read_with_their_own_captions(painted, monkeypatch):
    monkeypatch.setattr("understudy.evaluation.caption_adapter.CAPTIONED_ROWS", 11)
    monkeypatch.setattr("understudy.evaluation.caption_adapter._BATCH", 4)
    one, two = (measure_captions(*painted, FeatureExtractor("e", Eye()), no_bars) for _ in range(2))
    assert one.settings == {"rows_with_captions": 11}
    assert one.values[0].value > 99
    assert one.values == two.values

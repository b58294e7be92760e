"""The CLIP score of a release: of the right pairs, by encoders that read, and in an evaluation."""

import json

import numpy as np
import pytest
from tests.methods.colour_world import NAMES, Blind, Eye, Painter
from tests.run.blobs import SHAPE, blobs, folder_of

import understudy
from understudy.core.types import Release, SyntheticBatch
from understudy.data import open_source, write_release
from understudy.data.captions import with_captions
from understudy.evaluation.caption_adapter import measure_captions
from understudy.evaluation.embedding_pass import FeatureExtractor
from understudy.evaluation.evaluate import evaluate


def no_bars(words, total=None):
    return lambda rows: None


def measured(painted, features, protected=True):
    return measure_captions(painted, features, no_bars, protected=protected)


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
    return with_captions(open_source(tmp_path / "squares"))


def test_images_that_show_what_their_captions_say_score_highly(painted):
    found = measured(painted, FeatureExtractor("test:eye", Eye()))
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
    unprotected = measured(painted, FeatureExtractor("test:eye", Eye()), protected=False)
    assert {one.kind for one in unprotected.values} == {"owner-only"}


def test_of_a_large_release_random_rows_are_read_with_their_own_captions(painted, monkeypatch):
    monkeypatch.setattr("understudy.evaluation.caption_adapter.CAPTIONED_ROWS", 11)
    monkeypatch.setattr("understudy.evaluation.caption_adapter._BATCH", 4)
    one, two = (measured(painted, FeatureExtractor("e", Eye())) for _ in range(2))
    assert one.settings == {"rows_with_captions": 11}
    assert one.values[0].value > 99
    assert one.values == two.values


def test_an_encoder_that_reads_no_text_measures_nothing_and_says_what_would(painted):
    for features in (FeatureExtractor("test:blind", Blind()), FeatureExtractor("of the release")):
        found = measured(painted, features)
        assert not found.values
        (left,) = found.left_out
        assert left.startswith(f"CLIP score of the captions: {features.name} reads no text")
        assert "--features" in left


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A tiny network of the real architecture that knows nothing, and gives what it gives."""
    for package in ("torch", "transformers"):
        pytest.importorskip(package)
    from tests.backends.tiny_models.clip import clip

    return f"hf:{clip(tmp_path_factory.mktemp('clip'))}"


@pytest.mark.slow
@pytest.mark.parametrize("format", ["png", "parquet"])
@pytest.mark.usefixtures("one_thread")
def test_an_evaluation_has_the_score_of_a_captioned_release(tmp_path, clip, format):
    folder_of(tmp_path / "real", blobs(0, 60))
    folder_of(tmp_path / "test", blobs(2, 40))
    rows = list(blobs(1, 40))
    images = np.stack([image for _, image in rows])
    captions = [f"a {'brown' if at % 3 else 'golden'} {rows[at][0]} {at}" for at in range(40)]
    place = tmp_path / "out" / "release"
    written(place, images, captions, [name == "dog" for name, _ in rows], format)
    facts = {"data": {"image_shape": list(SHAPE), "count": 40}, "models": []}
    (place / "privacy.json").write_text(json.dumps(facts))
    sides = {"real": tmp_path / "real", "test": tmp_path / "test", "attacks": False}
    found = evaluate(tmp_path / "out", **sides, features=clip)
    score = found.find(f"CLIP score ({clip})")

    from understudy.backends.registry import load_encoder

    encoder = load_encoder(clip, shape=SHAPE)
    pairs = encoder.encode(images) * encoder.encode_text(captions)  # both of unit norm
    expected = 100 * np.maximum(pairs.astype(float).sum(axis=1), 0).mean()
    assert score.value == pytest.approx(expected, abs=1e-3)
    others = found.find(f"CLIP score ({clip}), captions shuffled")
    assert others.value != pytest.approx(expected, abs=1e-3)
    assert found.settings["rows_with_captions"] == 40
    assert "captions" in found.seconds
    assert {one.kind for one in found.values if "CLIP" not in one.name} == {"owner-only"}
    # By default the features know nothing of texts.
    plain = understudy.evaluate(tmp_path / "out", **sides, features="embedded:dct")
    assert not [one for one in plain.values if "CLIP" in one.name]
    assert "embedded:dct reads no text" in " ".join(plain.settings["left_out"])

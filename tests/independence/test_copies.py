"""Nine copies of a crafted image against eight: the experiment that moved votes by 12.04 for 1."""

import numpy as np
import pytest
from benchmarks.independence import changes, crafted

from understudy.backends.registry import load_encoder

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = {
    "embedded:studio": (64, 64, 3),
    "embedded:scattering?log=10&coefficients=400": (28, 28, 1),
    "embedded:dct": (28, 28, 1),
}


def loaded(name, shape):
    if "studio" in name:
        pytest.importorskip("transformers")
    if "scattering" in name:
        pytest.importorskip("torch")
    return load_encoder(name, shape=shape)


def largest(encoder, shape, count):
    """The largest change of a sum over its bound; and that each sum saw the copy."""
    found = changes(encoder, crafted(shape), count)
    assert min(found["votes"], found["means"]) > 0.7
    return max(found.values())


@pytest.mark.parametrize("count", [8, 64 + 8])
@pytest.mark.parametrize("name", SMALL)
def test_one_copy_more_moves_no_sum_by_more_than_its_bound(name, count):
    assert largest(loaded(name, SMALL[name]), SMALL[name], count) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("count", [63, 64, 512 + 8, 4096 + 8])
@pytest.mark.parametrize("name", SMALL)
def test_nor_at_other_borders_of_batches(name, count):
    assert largest(loaded(name, SMALL[name]), SMALL[name], count) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("count", [8, 64 + 8, 512 + 8])
def test_nor_with_a_network_of_onnx(count, shared_data):
    pytest.importorskip("onnxruntime")
    file = shared_data / "models" / "mobilenet_v2_features.onnx"
    shape = (64, 64, 3)
    assert largest(loaded(f"onnx:{file}", shape), shape, count) <= 1


def test_the_experiment_sees_an_encoder_that_rounds_by_the_size_of_its_batch():
    """Called as it was, eight at the end of a batch, its nine votes move together."""

    class Rounds:
        def encode(self, images):
            rows = images.reshape(len(images), -1)[:, :8].astype(np.float32) + 1
            return rows * np.float32(1 if len(images) > 8 else 1 + 2**-20)

    def by_itself(part):
        return Rounds().encode(part[part.any(axis=(1, 2, 3))])  # as if nothing were filled up

    class Unfilled(Rounds):
        def encode(self, images):
            found = by_itself(images)
            return np.concatenate([found, np.zeros((len(images) - len(found), 8), np.float32)])

    image = crafted((4, 4, 1)) | np.uint8(1)
    assert changes(Rounds(), image, 8)["votes"] == pytest.approx(1.0, abs=1e-5)
    moved = changes(Unfilled(), image, 8)
    assert moved["votes"] == pytest.approx(np.hypot(8, 9), abs=1e-4)
    assert min(moved.values()) > 3

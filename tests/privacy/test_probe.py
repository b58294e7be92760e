"""Encoders that do not treat records independently are refused before anything is charged."""

import numpy as np
import pytest

from understudy.backends.inference import require_inference
from understudy.core.errors import BackendError
from understudy.privacy.probe import SECONDS, probe_images, require_independent

SHAPE = (6, 5, 3)


def plain(images):
    return images.reshape(len(images), -1)[:, :12].astype(np.float32)


def centred(images):
    rows = plain(images)
    return rows - rows.mean(axis=0)


def by_position(images):
    rows = plain(images)
    rows[-1] = np.nextafter(rows[-1], np.float32(np.inf))
    return rows


def by_one_bright_neighbour(images):
    rows = plain(images)
    return rows + np.float32(2**-10 if (images == 255).all(axis=(1, 2, 3)).any() else 0)


def when_alone(images):
    return plain(images) * np.float32(1 if np.count_nonzero(images.any(axis=(1, 2, 3))) > 1 else 2)


def by_chance(images):
    return plain(images) + np.random.default_rng().normal(size=(len(images), 1)).astype(np.float32)


@pytest.mark.parametrize("seconds", [0.0, SECONDS])
@pytest.mark.parametrize(
    "encode", [centred, by_position, by_one_bright_neighbour, by_chance], ids=lambda f: f.__name__
)
def test_what_depends_on_the_batch_is_refused_by_its_name(encode, seconds):
    with pytest.raises(BackendError, match=r"^mine:net is refused.*position or its neighbours"):
        require_independent(encode, SHAPE, "mine:net", seconds=seconds)


def test_what_depends_on_being_alone_is_refused():
    with pytest.raises(BackendError, match="whether it is alone"):
        require_independent(when_alone, SHAPE, "mine:net")


def test_what_changes_the_images_that_it_is_given_is_told_so():
    """It was said to depend on the order of the batch."""

    def halved(images):
        images //= 2
        return plain(images)

    with pytest.raises(BackendError, match="is refused: it changes the records that it is given"):
        require_independent(halved, SHAPE, "mine:net")


@pytest.mark.parametrize(
    ("options", "batches"),
    [*(({"batch": size}, [size] * 4) for size in (1, 2, 16, 64)), ({"seconds": 0.0}, [64, 64])],
    ids=str,
)
def test_what_depends_on_the_record_alone_passes(options, batches):
    """An encoder that takes longer than ``seconds`` is asked twice."""
    calls = []

    def encode(images):
        calls.append(len(images))
        return plain(images)

    require_independent(encode, SHAPE, "mine:net", **options)
    assert calls == batches


def missing(images):
    rows = plain(images)
    rows[0, 0] = np.nan
    return rows


@pytest.mark.parametrize(
    ("encode", "fault"),
    [
        (lambda images: plain(images)[1:], r"shape \(63, 12\), where .* \(64, 12\)"),
        (lambda images: plain(images)[:, 1:], r"shape \(64, 11\), where .* \(64, 12\)"),
        (lambda images: plain(images)[:, :, None], r"shape \(64, 12, 1\)"),
        (lambda images: plain(images).astype(complex), "complex128"),
        (lambda images: None, "object of shape"),
        (lambda images: 1e300 + plain(images).astype(float), "NaN or infinite"),
        (missing, "NaN or infinite"),
    ],
)
def test_what_makes_no_embeddings_of_public_images_is_refused(encode, fault):
    """NaN ended as an error of an eigenvalue, and a wrong width was charged for."""
    with pytest.raises(BackendError, match=rf"^mine:net is refused: .*{fault}.*Nothing was spent"):
        require_independent(encode, SHAPE, "mine:net", dim=12)


def test_the_images_of_the_probe_are_of_many_kinds():
    images = probe_images(SHAPE, 64)
    assert not images[0].any()
    assert (images[1] == 255).all()
    assert len({image.tobytes() for image in images}) > 60


class Network:
    """An encoder with a network somewhere inside."""

    def __init__(self, layers):
        self.name = "mine:net"
        self._parts = {"network": [layers]}

    def encode(self, images):
        import torch

        with torch.no_grad():
            return self._parts["network"][0](torch.from_numpy(plain(images))).numpy()


def layers(kind, **options):
    torch = pytest.importorskip("torch")
    return torch.nn.Sequential(torch.nn.Linear(12, 4), kind(torch)(4, **options))


def normalised(torch):
    return torch.nn.BatchNorm1d


def test_a_network_in_training_mode_is_refused_and_in_inference_mode_it_is_not():
    network = Network(layers(normalised))
    with pytest.raises(BackendError, match=r"mine:net is refused.*training mode.*\.eval\(\)"):
        require_inference(network, network.name)
    with pytest.raises(BackendError, match="depends on"):
        require_independent(network.encode, SHAPE, network.name)
    network._parts["network"][0].eval()
    require_inference(network, network.name)
    require_independent(network.encode, SHAPE, network.name)


def test_statistics_of_the_batch_are_refused_in_inference_mode_too():
    network = Network(layers(normalised, track_running_stats=False).eval())
    with pytest.raises(BackendError, match=r"statistics of the batch"):
        require_inference(network, network.name)
    with pytest.raises(BackendError, match="depends on"):
        require_independent(network.encode, SHAPE, network.name)


def test_networks_are_found_in_functions_and_methods():
    network = layers(normalised)
    hidden = Network(None)
    hidden._parts = {"run": lambda values: network(values)}
    with pytest.raises(BackendError, match="training mode"):
        require_inference(hidden, "mine:net")
    hidden._parts = {"run": network.forward}
    with pytest.raises(BackendError, match="training mode"):
        require_inference(hidden, "mine:net")

"""What --full, --lpips and --dp-sgd measure: each figure beside itself computed another way."""

import json
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from tests.run.blobs import SHAPE, blobs, folder_of
from tests.run.samples import embeddings

import understudy
from understudy.core.results import Evaluation
from understudy.data import open_source
from understudy.evaluation.embedding_pass import load_features
from understudy.metrics.dp_sgd import dp_sgd
from understudy.metrics.labelled import Labelled
from understudy.metrics.leakage import mutual_information, regional_mutual_information
from understudy.metrics.reconstruction import ssim
from understudy.report import read_evaluation

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
DCT = "embedded:dct?coefficients=60"


class Apart(torch.nn.Module):
    """A perceptual distance: the mean difference of the pixels."""

    def forward(self, a, b):
        return (a - b).abs().mean(dim=(1, 2, 3))


def gather(source):
    """All of a dataset, as it is read."""
    batches = list(source.batches(999))
    values, labels = (
        np.concatenate([getattr(one, of) for one in batches]) for of in ("values", "labels")
    )
    return Labelled(values, labels, source.classes)


def apart(one, two):
    """All distances, written out."""
    return np.sqrt(((one[:, None].astype(np.float64) - two[None]) ** 2).sum(axis=2))


def entropy(image):
    """Of 32 steps of light, in bits: what an image tells of itself."""
    counts = np.bincount(image.ravel() // 8, minlength=32)
    parts = counts[counts > 0] / counts.sum()
    return -(parts * np.log2(parts)).sum()


def script(module, inputs, file):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.trace(module, (torch.zeros(1, 3, *SHAPE[:2]),) * inputs).save(str(file))
    return file


@dataclass
class World:
    """An evaluation of a release that is the private data itself, and what was evaluated."""

    found: Evaluation
    real: Labelled
    test: Labelled
    features: list  # of the two, by row
    pixels: np.ndarray  # distances of held-out images to private ones

    def figure(self, words, start=""):
        """(release, baseline) of the one figure of all rows that is named so."""
        named = [one for one in self.found.values if words in one.name and not one.label]
        (one,) = [one for one in named if one.name.startswith(start)]
        return one.value, one.baseline


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    place = tmp_path_factory.mktemp("world")
    private = list(blobs(0, 200))
    folder_of(place / "real", private)
    folder_of(place / "test", blobs(2, 200))
    folder_of(place / "out", private, release=True)
    found = understudy.evaluate(
        place / "out",
        real=place / "real",
        test=place / "test",
        features=DCT,
        full=True,
        epochs=1,
        lpips=script(Apart(), 2, place / "apart.pt"),
    )
    real, test = (gather(open_source(place / name)) for name in ("real", "test"))
    encode = load_features(DCT, SHAPE)
    features = [encode(one.values)[0].astype(np.float64) for one in (real, test)]
    pixels = apart(*(one.values.reshape(200, -1) for one in (test, real)))
    return World(found, real, test, features, pixels)


def test_reconstruction_finds_every_image_of_the_private_data(world):
    lights = 10 * np.log10(255**2 / (world.pixels.min(axis=1) ** 2 / 256))
    assert world.figure("PSNR") == (np.inf, pytest.approx(np.median(lights)))
    ours, theirs = world.figure("SSIM")
    assert ours == pytest.approx(1)
    best = world.real.values[world.pixels.argmin(axis=1)]
    assert theirs == pytest.approx(np.median(ssim(world.test.values, best)))
    assert world.figure("matched better") == (1.0, pytest.approx(2.99 / 201))  # of 200 held out
    rows = world.found.settings["rows_of_reconstruction"]
    assert rows == {"private": 200, "release": 200, "held_out": 200}


def test_attributes_of_private_rows_are_inferred_beyond_those_of_strangers(world):
    ours, theirs = world.features
    right = (world.real.labels[apart(theirs, ours).argmin(axis=1)] == world.test.labels).mean()
    name = "attribute inference of the class"
    assert world.figure(f"{name}: private records") == (1.0, pytest.approx(right))
    gain = world.found.find(f"{name}: more than of held-out records")
    assert (gain.value, gain.baseline) == (pytest.approx(1 - right), 0.0)
    assert 0 < gain.low < gain.value < gain.high


def test_semantic_similarity_is_the_mean_cosine_of_all_pairs(world):
    ours, theirs = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in world.features)
    means = (ours @ ours.T).mean(), (ours @ theirs.T).mean()
    assert world.figure("(SIM)") == pytest.approx(means)


def test_pairs_that_stand_out_are_chosen_alike_on_both_sides(world):
    """Synthetic rows hit themselves; of held-out records, those with the smallest ratios count."""
    order = np.sort(world.pixels, axis=1)
    few = np.argsort(order[:, 0] / order[:, 1], kind="stable")[:24]
    pairs = world.test.values[few], world.real.values[world.pixels.argmin(axis=1)[few]]
    far = np.abs(pairs[0].astype(float) - pairs[1]).mean() / 127.5
    assert world.figure("perceptual distance") == pytest.approx((0.0, far))
    assert world.found.find(
        "perceptual distance, mean of the 24 pairs that stand out most",
        measured="torchscript:apart.pt",
    )
    entropies = [entropy(image) for image in world.real.values[:24]]
    words = " information in bits"
    assert world.figure(words, "mutual")[0] == pytest.approx(np.mean(entropies))
    for start, measure in (("mutual", mutual_information), ("reg", regional_mutual_information)):
        one, two = world.figure(words, start)
        assert one > two == pytest.approx(measure(*pairs).mean())


def test_the_curve_ends_with_the_model_that_learnt_from_all_rows(world):
    accuracy = world.found.find("balanced accuracy, trained on the release").value
    (curve,) = [one for one in world.found.curves if one.group == "utility"]
    assert curve.x == (100.0, 200.0)
    assert curve.y[-1] == accuracy
    (confusion,) = world.found.settings["confusion"]
    counts = np.array(confusion["counts"])
    assert np.mean(np.diag(counts) / counts.sum(axis=1)) == accuracy
    assert read_evaluation(world.found.as_dict()).settings == world.found.settings


def test_dp_sgd_keeps_the_releases_promise(tmp_path):
    pytest.importorskip("opacus")
    options = {
        "real": embeddings(tmp_path / "real.npz"),
        "test": embeddings(tmp_path / "test.npz", seed=5),
    }
    understudy.synthesize(
        options["real"], out=tmp_path / "out", epsilon=2.0, count=90, ledger=str(tmp_path / "l.db")
    )
    found = understudy.evaluate(
        tmp_path / "out", **options, networks=["two-layer"], dp_sgd=True, epochs=3, attacks=False
    )
    delta = json.loads((tmp_path / "out/release/privacy.json").read_text())["guarantee"]["delta"]
    real, test = (gather(open_source(place)) for place in options.values())
    made = dp_sgd(real, test, epsilon=2.0, delta=delta, network="two-layer", epochs=3)
    one = found.find("balanced accuracy, DP-SGD on the private records")
    assert one.value == made.result.balanced
    assert one.baseline == found.find("balanced accuracy, trained on the release").baseline
    assert found.settings["dp_sgd"]["steps"] == made.steps

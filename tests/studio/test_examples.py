"""`understudy studio examples`: public images become what embedded:photo can draw from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from typer.testing import CliRunner, Result

pytest.importorskip("torch")
pytest.importorskip("diffusers")
pytest.importorskip("aggdraw")

from safetensors.numpy import load_file
from tests.studio.test_photographs import written
from tests.tiny_prior import tiny_prior

from understudy.backends.embedded.photo import public_examples
from understudy.backends.embedded.photo.photo_models import PRIOR
from understudy.backends.embedded.photo.public_examples import EXAMPLES, PhotoExamples
from understudy.backends.registry import load_decoder, load_encoder
from understudy.cli.main import app
from understudy.core.errors import BackendError, ConfigError, SourceError
from understudy.core.prior_decoder import ExampleDecoder
from understudy.core.types import Images
from understudy.data import open_source
from understudy.steps.grid import Description
from understudy.studio.examples import examples_of_sources, make_examples

COUNTS = {"leaves": 24, "drawn scenes": 36}
SHAPE = (64, 64, 3)


def drawn(kind: str, count: int) -> Images:
    source = open_source(f"procedural:{kind}?count={count}&seed=3", size=64)
    return np.concatenate([batch.values for batch in source.batches(64)])


@pytest.fixture(scope="module")
def vae(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_prior(tmp_path_factory.mktemp("prior") / "vae")


@pytest.fixture(scope="module")
def images() -> dict[str, Images]:
    return {word: drawn(word.split()[-1], count) for word, count in COUNTS.items()}


@pytest.fixture(scope="module")
def sources(images: dict[str, Images], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("public")
    return {word: str(written(folder / word, rows)) for word, rows in images.items()}


@pytest.fixture(scope="module")
def made(vae: Path, sources: dict[str, str]) -> PhotoExamples:
    """In clusters of a dozen, as many as thousands of images would have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(public_examples, "_PER_CLUSTER", 12)
        return make_examples(sources, vae)


def decoder_of(vae: Path, side: int = 64) -> ExampleDecoder:
    decoder = load_decoder("embedded:photo", shape=(side, side, 3), folder=str(vae))
    assert isinstance(decoder, ExampleDecoder)
    return decoder


def stored(vae: Path) -> dict[str, NDArray[Any]]:
    return load_file(vae / PRIOR / EXAMPLES)


def test_the_decoder_has_the_images_by_their_descriptions_and_features(
    vae: Path, images: dict[str, Images], made: PhotoExamples
) -> None:
    decoder = decoder_of(vae)
    examples, together = decoder.examples, np.concatenate(list(images.values()))
    assert examples is not None
    assert examples.kind_names == tuple(COUNTS)
    encoder = load_encoder("embedded:photo", shape=SHAPE, folder=str(vae))
    description = Description.of_arrays(decoder.description, encoder.latent)  # type: ignore[attr-defined]
    wanted = np.clip(description.forward(encoder.encode(together)), -6, 6)
    np.testing.assert_allclose(examples.descriptions, wanted, atol=6 / 127)
    features = examples.encode(together)
    assert features.shape == made.features.shape == (60, 300)
    largest = np.abs(features).max(axis=0)
    assert (np.abs(examples.features - features) <= 0.005 * largest + 1e-5).all()
    assert decoder_of(vae, 32).examples is None  # grids of four places have no detail to vote for


def test_no_cluster_is_of_two_sources(made: PhotoExamples) -> None:
    assert made.clusters.max() + 1 == len(made.kinds) == len(made.radii) >= 4
    assert np.bincount(made.clusters).min() > 0
    assert made.kinds[made.clusters].tolist() == [0] * 24 + [1] * 36


def test_most_images_lie_within_the_radius_of_the_example_that_is_nearest_to_them(
    made: PhotoExamples,
) -> None:
    distances = cdist(made.features, made.features)
    np.fill_diagonal(distances, np.inf)
    nearest, cluster = distances.min(axis=1), made.clusters[distances.argmin(axis=1)]
    for number, radius in enumerate(made.radii):
        mine = nearest[cluster == number]
        expected = np.quantile(mine, 0.9) if len(mine) else 0.0
        assert radius == pytest.approx(expected, rel=1e-4)
    assert (nearest <= 1.0001 * made.radii[cluster]).mean() >= 0.75


def test_features_follow_what_sets_the_images_apart(made: PhotoExamples) -> None:
    variances = made.features.var(axis=0)
    assert variances[0] > 3 * variances[10] > 10 * variances[50]
    assert np.abs(made.features.mean(axis=0)).max() < 0.02 * variances[0] ** 0.5


def test_the_same_images_give_the_same_examples(
    vae: Path, sources: dict[str, str], made: PhotoExamples
) -> None:
    before = stored(vae)
    named = [f"{word}={source}" for word, source in sources.items()]
    again = examples_of_sources(named, vae, progress="none")
    np.testing.assert_array_equal(again.features, made.features)
    after = stored(vae)
    assert set(before) == set(after)
    for name in ("8.descriptions", "features", "centre", "axes"):
        np.testing.assert_array_equal(after[name], before[name])
    assert after["kinds"].tolist() == [0, 1]  # so few images are one cluster a source


def commanded(*words: object) -> Result:
    return CliRunner().invoke(app, ["studio", "examples", *map(str, words)])


def test_the_command_writes_them_where_the_decoder_finds_them(
    tmp_path: Path, sources: dict[str, str]
) -> None:
    vae = tiny_prior(tmp_path / "vae")
    assert decoder_of(vae).examples is None
    told = [("--images", f"{word}={source}") for word, source in sources.items()]
    result = commanded(*sum(told, ()), "--folder", vae, "--progress", "plain")
    assert result.exit_code == 0, result.output
    assert "describing public images" in result.output
    assert "vae" in result.output
    examples = decoder_of(vae).examples
    assert examples is not None
    assert len(examples.features) == sum(COUNTS.values())
    assert examples.kind_names == tuple(COUNTS)


@pytest.mark.parametrize(
    ("named", "blamed"),
    [
        (["leaves"], "leaves"),
        (["=leaves/"], "=leaves/"),
        (["leaves="], "leaves="),
        (["a=one/", "a=two/"], "a=two/"),
    ],
)
def test_a_source_needs_a_word_of_its_own(vae: Path, named: list[str], blamed: str) -> None:
    with pytest.raises(ConfigError, match="a word of its own") as refusal:
        examples_of_sources(named, vae, progress="none")
    assert f"--images {blamed}:" in str(refusal.value)


def test_without_a_prior_there_is_nothing_to_draw_with(
    tmp_path: Path, sources: dict[str, str]
) -> None:
    with pytest.raises(BackendError, match=r"holds no prior.*understudy studio train"):
        make_examples(sources, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_embeddings_are_no_images(vae: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", embeddings=np.zeros((30, 12), dtype=np.float32))
    with pytest.raises(SourceError, match="embeddings"):
        make_examples({"rows": str(tmp_path / "rows.npz")}, vae)


@pytest.mark.parametrize("rows", [drawn("leaves", 5), np.zeros((30, 64, 64, 3), np.uint8)])
def test_too_few_images_and_images_all_alike_are_refused(
    vae: Path, tmp_path: Path, rows: Images
) -> None:
    before = (vae / PRIOR / EXAMPLES).is_file()
    with pytest.raises(SourceError, match=r"20 or more that differ"):
        make_examples({"one": str(written(tmp_path / "one", rows))}, vae)
    with pytest.raises(ConfigError, match="need a source"):
        make_examples({}, vae)
    assert (vae / PRIOR / EXAMPLES).is_file() is before

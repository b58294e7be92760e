"""`understudy studio examples`: public images become what embedded:photo can draw from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from typer.testing import CliRunner, Result

pytest.importorskip("torch")
pytest.importorskip("diffusers")
pytest.importorskip("aggdraw")

from safetensors.numpy import load_file
from tests.studio.test_photographs import written
from tests.tiny_prior import tiny_prior

from understudy.backends.embedded import example_features
from understudy.backends.embedded.photo.photo_examples import PhotoExamples
from understudy.backends.registry import load_model
from understudy.cli.main import app
from understudy.core.errors import BackendError, ConfigError, SourceError
from understudy.core.public_examples import ExampleGenerator
from understudy.core.types import Images, Shape
from understudy.data import open_source
from understudy.steps.grid import PriorSpace
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
def file(vae: Path, sources: dict[str, str]) -> Path:
    """In clusters of a dozen, as many as thousands of images would have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(example_features, "_PER_CLUSTER", 12)
        return make_examples(sources, vae)


@pytest.fixture(scope="module")
def made(vae: Path, file: Path) -> PhotoExamples:
    examples = known(vae)
    assert examples is not None
    return examples


def generator_of(vae: Path) -> ExampleGenerator:
    return load_model(ExampleGenerator, f"embedded:photo?folder={vae}")


def known(vae: Path, shape: Shape = SHAPE) -> PhotoExamples | None:
    examples = generator_of(vae).known(shape)
    assert examples is None or isinstance(examples, PhotoExamples)
    return examples


def test_the_generator_has_the_images_by_their_descriptions_and_features(
    vae: Path, images: dict[str, Images], made: PhotoExamples
) -> None:
    together = np.concatenate(list(images.values()))
    assert made.kind_names == tuple(COUNTS)
    described = generator_of(vae).describes(SHAPE)
    assert described is not None
    space = PriorSpace.of(described.decoder, described.encoder.latent)
    wanted = np.clip(space.forward(described.encoder.encode(together)), -6, 6)
    np.testing.assert_allclose(made.descriptions, wanted, atol=6 / 127)
    latents = described.encoder.encode(together)
    assert np.abs(made.latents - latents).max() <= latents.std() * 0.501
    features = made.encode(together)
    assert features.shape == made.features.shape == (60, 300)
    largest = np.abs(features).max(axis=0)
    assert (np.abs(made.features - features) <= 0.005 * largest + 1e-5).all()
    assert known(vae, (32, 32, 3)) is None  # grids of four places have no detail to vote for


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
        assert radius == pytest.approx(expected, rel=2e-3)  # of rounded features
    assert (nearest <= 1.002 * made.radii[cluster]).mean() >= 0.75


def test_features_follow_what_sets_the_images_apart(made: PhotoExamples) -> None:
    variances = made.features.var(axis=0)
    assert variances[0] > 3 * variances[10] > 10 * variances[50]
    assert np.abs(made.features.mean(axis=0)).max() < 0.02 * variances[0] ** 0.5


def test_the_same_images_give_the_same_examples(
    vae: Path, sources: dict[str, str], file: Path
) -> None:
    before = load_file(file)
    named = [f"{word}={source}" for word, source in sources.items()]
    assert examples_of_sources(named, vae, progress="none") == file
    after = load_file(file)
    assert set(before) == set(after)
    for name in ("8.descriptions", "8.latents", "features", "centre", "axes"):
        np.testing.assert_array_equal(after[name], before[name])
    assert after["kinds"].tolist() == [0, 1]  # so few images are one cluster a source


def commanded(*words: object) -> Result:
    return CliRunner().invoke(app, ["studio", "examples", *map(str, words)])


@pytest.mark.parametrize(
    ("flags", "shape", "sides"),
    [([], SHAPE, {"8", "16"}), (["--small"], (28, 28, 1), {"4"})],
)
def test_the_command_writes_them_where_the_generator_finds_them(
    tmp_path: Path, sources: dict[str, str], flags: list[str], shape: Shape, sides: set[str]
) -> None:
    vae = tiny_prior(tmp_path / "vae")
    assert known(vae, shape) is None
    told = [("--images", f"{word}={source}") for word, source in sources.items()]
    result = commanded(*sum(told, ()), "--folder", vae, "--progress", "plain", *flags)
    assert result.exit_code == 0, result.output
    assert "describing public images" in result.output
    assert "examples.safetensors" in result.output.replace("\n", "")
    examples = known(vae, shape)
    assert examples is not None
    assert len(examples.features) == sum(COUNTS.values())
    assert examples.kind_names == tuple(COUNTS)
    (file,) = (vae / "prior").glob("*examples.safetensors")
    described = {
        name.partition(".")[0] for name in load_file(file) if name.endswith("s") and "." in name
    }
    assert described <= sides
    drawn_again = examples.draw(np.array([0, 0, 59]), seeds=np.arange(3, dtype=np.uint64))
    assert drawn_again.shape == (3, *shape)


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
    before = sorted((vae / "prior").iterdir())
    with pytest.raises(SourceError, match=r"20 or more that differ"):
        make_examples({"one": str(written(tmp_path / "one", rows))}, vae)
    with pytest.raises(ConfigError, match="need a source"):
        make_examples({}, vae)
    assert sorted((vae / "prior").iterdir()) == before

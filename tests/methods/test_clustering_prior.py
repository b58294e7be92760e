"""Clustering with a decoder that draws: its prior stands in for public images, and they for it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("diffusers")
pytest.importorskip("aggdraw")

from tests.run.samples import save
from tests.tiny_prior import tiny_prior

from understudy import synthesize
from understudy.backends.registry import load_decoder, load_encoder
from understudy.cli import show
from understudy.core.prior_decoder import COVARIANCE, PriorDecoder
from understudy.core.types import Shape
from understudy.data import open_source
from understudy.methods.base import Context
from understudy.methods.clustering.algorithm import METHOD, ClusteringParams
from understudy.methods.clustering.covariance import leading_directions
from understudy.methods.clustering.embedding_space import SpaceSettings, described_space
from understudy.run.check import check_source
from understudy.run.config import make_config
from understudy.run.dry import dry_run
from understudy.run.models import procedural_name
from understudy.steps.evened import EvenedSpace
from understudy.steps.grid import PriorSpace

COLOURS = {"red": (200, 60, 60), "blue": (60, 60, 200)}


@pytest.fixture(autouse=True, scope="module")
def quick(one_thread: None) -> None:
    """Tiny networks: threads cost more than they give."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_prior(tmp_path_factory.mktemp("prior") / "vae")


def context_of(
    folder: Path, shape: Shape = (32, 32, 3), *, public: bool, **options: str
) -> Context:
    name = f"embedded:photo?folder={folder}"
    encoder = load_encoder(name, shape=shape)
    decoder = load_decoder(name, shape=shape, encoder=encoder, **options)
    return Context(shape, encoder=encoder, decoder=decoder, public=public, mu=0.3)


def test_a_prior_makes_a_grid_without_public_images(folder: Path) -> None:
    context = context_of(folder, public=False)
    assert context.grid == (28, 4, 4)
    params = METHOD.settle(ClusteringParams(), context)
    assert (params.clusters, params.covariance, params.normalise) == (1, "class", False)
    settings = SpaceSettings.of(context, None, None, matrix=True, whiten=True)
    assert settings.dim == 110
    assert context_of(folder, public=False, prior="false").grid is None
    assert context_of(folder, (72, 64, 3), public=False).grid is None


def test_where_its_descriptions_are_known_to_go_together_they_are_evened(folder: Path) -> None:
    context = context_of(folder, public=False)
    settings = SpaceSettings.of(context, None, None, matrix=True, whiten=True)
    decoder = context.decoder
    assert isinstance(decoder, PriorDecoder)
    assert isinstance(described_space(decoder, settings.grid or ()), EvenedSpace)
    decoder.description = {  # as of a prior that was trained before it was measured
        name: array for name, array in decoder.description.items() if name != COVARIANCE
    }
    assert isinstance(described_space(decoder, settings.grid or ()), PriorSpace)


@pytest.mark.parametrize(("size", "expected"), [(10, 1), (60, 4), (150, 8), (900, 32), (1e9, 128)])
def test_the_more_images_a_class_has_the_more_directions_are_measured(
    size: float, expected: int
) -> None:
    found = leading_directions(size, 153)
    assert found == expected
    assert found == 1 or np.sqrt(2 * found) * 1.21 * found <= 0.4 * size


def test_drawings_are_public_images_only_where_no_prior_draws(folder: Path) -> None:
    asked = [
        procedural_name("procedural", context_of(folder, shape, public=True, **options))
        for shape, options in [
            ((32, 32, 3), {}),
            ((32, 32, 3), {"prior": "false"}),
            ((72, 64, 3), {}),
        ]
    ]
    assert asked[0] is None
    assert all(str(name).startswith("procedural:") for name in asked[1:])
    context = context_of(folder, public=True)
    assert procedural_name("photos/", context) == "photos/"
    roles = METHOD.roles(ClusteringParams(components=40), frozenset())
    assert str(procedural_name(roles["public"], context)).startswith("procedural:")
    assert METHOD.roles(ClusteringParams(), frozenset())["public"] == "procedural"


@pytest.fixture(scope="module")
def tiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bright spots on red and on blue ground."""
    folder = tmp_path_factory.mktemp("tiles")
    rng = np.random.default_rng(2)
    for name, colour in COLOURS.items():
        (folder / name).mkdir()
        for number in range(40):
            tile = np.array(colour) + rng.normal(0, 12) + rng.normal(0, 6, (32, 32, 1))
            tile[rng.integers(4, 20) :][:6] += 50
            save(np.clip(tile, 0, 255).astype(np.uint8), folder / name / f"{number}.png")
    return folder


@pytest.mark.parametrize(
    ("epsilon", "settings"), [(1.0, {}), (4000.0, {}), (1.0, {"shrink": False})]
)
def test_few_images_get_the_covariance_of_public_ones(
    folder: Path, tiles: Path, tmp_path: Path, epsilon: float, settings: dict[str, object]
) -> None:
    few = epsilon == 1 and not settings
    name = f"embedded:photo?folder={folder}"
    options = {"epsilon": epsilon, "accept_epsilon": True, "settings": settings, "count": 4}
    options |= {"encoder": name, "decoder": f"{name}&steps=2"}
    options |= {"ledger": str(tmp_path / "ledger.db")}
    plan = dry_run(make_config({"source": str(tiles), "out": tmp_path / "out", **options}))
    assert plan.carried[0].public is few
    assert any("covariance" in note for note in plan.notes) is (plan.carried[0].public_below > 0)
    result = synthesize(tiles, out=tmp_path / "out", **options)  # type: ignore[arg-type]
    assert result.facts.get("public_covariance", False) is few
    assert any("too few" in note for note in result.warnings) is few
    assert {stage.stage for stage in result.receipt.stages} == {stage.name for stage in plan.stages}
    (one, *_) = [stage for stage in plan.stages if stage.name == "class sizes"]
    assert (result.facts["class_size_noise"] < 0.7 * one.noise) is few
    if few:
        assert not any(result.facts["own_directions_per_class"].values())


def test_a_check_says_that_few_images_get_the_covariance_of_public_ones(
    folder: Path, tiles: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"embedded:photo?folder={folder}"
    config = {"source": str(tiles), "out": "out", "epsilon": 1.0}
    result = check_source(make_config({**config, "encoder": name, "decoder": name}))
    (problem,) = [one for one in result.problems if one.kind == "few images"]
    assert not problem.blocking
    assert "80 images are too few for a covariance at epsilon 1 and 3" in problem.message
    assert "public images" in problem.message
    small = check_source(make_config(config))  # 32 pixels a side: `embedded:dct`
    assert not [one for one in small.problems if one.kind == "few images"]
    show.capacity_table(dry_run(make_config({**config, "encoder": name, "decoder": name})).carried)
    assert "none: that of public images" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_a_release_is_drawn_without_public_images_and_moved_with_some(
    folder: Path, tiles: Path, tmp_path: Path
) -> None:
    name = f"embedded:photo?folder={folder}"
    redness = {}
    for public in (None, "procedural:scenes?count=60"):
        result = synthesize(
            tiles,
            out=tmp_path / str(public is None),
            epsilon=400.0,
            accept_epsilon=True,
            count=24,
            ledger=str(tmp_path / "ledger.db"),
            encoder=name,
            decoder=f"{name}&steps=2",
            public=public,
        )
        batch = next(iter(open_source(result.release).batches(100)))
        assert batch.values.shape == (24, 32, 32, 3)
        red = batch.values[..., 0].astype(float) - batch.values[..., 2]
        redness[public] = red[batch.labels == 1].mean() - red[batch.labels == 0].mean()
    drawn, moved = redness.values()
    assert moved > 100
    assert abs(drawn) < 0.5 * moved  # an untrained prior has no colours


@pytest.mark.slow
@pytest.mark.parametrize("like", [True, False])
def test_samples_are_drawn_like_public_images_that_are_given_if_private_ones_look_like_them(
    tmp_path: Path, like: bool
) -> None:
    for folder, seed, kinds in (
        ("private", 1, ("rings", "leaves")),
        ("public", 2, ("rings", "leaves") if like else ("cells",)),
    ):
        for kind in kinds:
            place = tmp_path / folder / (kind if folder == "private" else "")
            place.mkdir(parents=True, exist_ok=True)
            source = open_source(f"procedural:{kind}?count=150&seed={seed}", size=64)
            images = np.concatenate([batch.values for batch in source.batches(150)])
            for number, image in enumerate(images):
                save(image, place / f"{kind}-{number}.png")
    result = synthesize(
        tmp_path / "private",
        out=tmp_path / "out",
        epsilon=60.0,
        count=40,
        ledger=str(tmp_path / "ledger.db"),
        public=str(tmp_path / "public"),
        progress="none",
    )
    assert ("examples_per_class" in result.facts) is like
    words = (
        r"drawn like public examples of the images. kind \(the public dataset\)"
        if like
        else "not drawn from"
    )
    assert any(re.search(words, warning) for warning in result.warnings)
    if like:
        sizes = result.facts["examples_per_class"]
        assert all(120 <= sizes[name] <= 180 for name in ("rings", "leaves"))
    statement = (result.release / "PRIVACY.md").read_text()
    assert statement.count("the public dataset") == (1 if like else 0)
    assert "No public data was used" not in statement

"""The noisy mean map: what it is of, what it costs, and that ten references are too few."""

from pathlib import Path

import numpy as np
import pytest
from tests.methods.sanitize.painted_world import rooms

from understudy.audit.adjacent_datasets import InMemorySource
from understudy.core.errors import ConfigError
from understudy.core.types import Images
from understudy.engine.local import LocalEngine
from understudy.methods.sanitize.noisy_maps import MAP_STAGE, NoisyMap, cell_means, noisy_mean_map
from understudy.privacy.account import Account
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.unit import Unit
from understudy.privacy.vault import PrivateVault


def drawn(photos: Images) -> Images:
    """The dogs alone, white."""
    red = (photos[..., 0] > 150) & (photos[..., 1] < 90)
    return np.repeat(red[..., None], 3, axis=3).astype(np.uint8) * 255


@pytest.fixture
def release(tmp_path: Path):
    """Releases the map of so many photos at an epsilon."""
    runs = iter(range(100))

    def run(count: int, epsilon: float, **options: float) -> NoisyMap:
        photos, _ = rooms(count)
        source = InMemorySource(
            f"photos-{count}", "images", ("all",), photos, np.zeros(count, dtype=np.int64)
        )
        folder = tmp_path / str(next(runs))
        (folder / "cache").mkdir(parents=True)
        with Ledger(str(folder / "ledger.db")) as ledger:
            plan = Plan.of(Budget(epsilon, 1e-5), {MAP_STAGE.name: MAP_STAGE.weight})
            dataset = ledger.register(source).id
            account = Account(ledger, dataset, Unit(), plan, folder / "stages")
            vault = PrivateVault(source, account, LocalEngine(1), folder / "cache")
            return noisy_mean_map(vault, drawn, **options)

    return run


def true_mean(count: int, side: int = 8) -> np.ndarray:
    return cell_means(drawn(rooms(count)[0]), side).mean(axis=0)


def test_the_mean_of_many_photos_is_where_the_dogs_are(release) -> None:
    result = release(400, 50.0, clip_radius=4.0)
    assert result.count == pytest.approx(400, rel=0.05)
    np.testing.assert_allclose(result.mean, true_mean(400), atol=6 * result.noise_sd + 0.01)
    assert result.noise_sd < 0.02


def test_of_ten_references_nothing_but_noise_is_left(release) -> None:
    result = release(10, 1.0, clip_radius=4.0)
    assert result.noise_sd > true_mean(10).max()


def test_the_noise_is_as_large_as_stated(release) -> None:
    errors = []
    for _ in range(6):
        result = release(400, 1.0, clip_radius=4.0)
        errors.append((result.mean - true_mean(400)) / result.noise_sd)
    assert 0.8 < np.std(errors) < 1.2


def test_long_maps_are_scaled_down(release) -> None:
    short = release(400, 50.0, clip_radius=0.5)
    assert np.abs(short.mean).sum() < 0.5 * true_mean(400).sum()


def test_refused_before_anything_is_spent(release) -> None:
    with pytest.raises(ConfigError, match="clip_radius above 0"):
        release(4, 1.0, clip_radius=0.0)
    with pytest.raises(ConfigError, match="side must be 1"):
        release(4, 1.0, side=0)

"""The camera's noise crosses the gap too: in the release that was there anyway."""

import numpy as np
import pytest
from tests.run.samples import save

from understudy import synthesize
from understudy.data import open_source
from understudy.steps.grain import noise_levels

GREY = 8.0
"""Deviation of the private pictures' noise, the same in all colours of a pixel."""


def pictures(folder, per_class, seed, deviation):
    """Two classes of gradients, upwards and sideways, and what the camera adds."""
    rng = np.random.default_rng(seed)
    for label, name in enumerate(("up", "across")):
        (folder / name).mkdir(parents=True)
        for number in range(per_class):
            along = np.linspace(*sorted(rng.uniform(40, 200, 2)), 24)
            plain = np.broadcast_to(along[:, None] if label == 0 else along[None, :], (24, 24))
            tinted = plain[..., None] * rng.uniform(0.7, 1.0, 3)
            values = tinted + deviation * rng.normal(size=(24, 24, 1))
            save(values.round().clip(0, 255).astype(np.uint8), folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    return pictures(folder / "private", 150, 0, GREY), pictures(folder / "base", 60, 1, 0.0)


def level(homes, out, epsilon=20.0, **settings):
    """Mean noise levels of a release, and its stages."""
    private, base = homes
    out.mkdir(exist_ok=True)
    made = synthesize(
        private,
        out=out / "out",
        method="alignment",
        encoder="embedded:dct",
        decoder="embedded:dct",
        epsilon=epsilon,
        base=str(base),
        ledger=str(out / "ledger.db"),
        settings={"clusters": 1, **settings},
    )
    (batch,) = open_source(made.release).batches(1000)
    return noise_levels(batch.values).mean(axis=0), [stage.stage for stage in made.receipt.stages]


@pytest.mark.parametrize("settings", [{}, {"clusters": 2}, {"conditional": False}])
def test_a_release_has_as_much_noise_as_the_private_pictures(homes, tmp_path, settings):
    found, stages = level(homes, tmp_path, **settings)
    assert found[0] == pytest.approx(GREY * 3**0.5, rel=0.15)
    assert found[1:].max() < 2.0  # it is the same in all colours
    assert "grain" not in stages  # it costs no release of its own


def test_it_is_left_out_where_nobody_wants_it(homes, tmp_path):
    assert level(homes, tmp_path, grain=False)[0].max() < 2.0


def test_a_gap_that_may_be_privacy_noise_is_not_drawn(homes, tmp_path):
    # Noise passes for a gap now and then: the middle of five runs is looked at.
    levels = [level(homes, tmp_path / str(run), epsilon=0.01)[0].max() for run in range(5)]
    assert np.median(levels) < 2.0


def test_clean_pictures_stay_clean(homes, tmp_path):
    clean = pictures(tmp_path / "clean", 150, 2, 0.0)
    assert level((clean, homes[1]), tmp_path)[0].max() < 2.0

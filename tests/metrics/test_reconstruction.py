"""Best matches against all pairs written out; copies are told from strangers."""

import numpy as np
import pytest

from understudy.core.types import Images
from understudy.metrics import reconstruction
from understudy.metrics.reconstruction import Matches, Reconstruction, reconstruct, ssim


def pictures(n: int, seed: int, shape: tuple[int, int, int] = (12, 13, 1)) -> Images:
    return np.random.default_rng(seed).integers(0, 256, (n, *shape)).astype(np.uint8)


@pytest.mark.parametrize("numbers", [2**25, 1000])
def test_every_pair_written_out(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconstruction, "_NUMBERS", numbers)  # of the release at once
    shape = (12, 13, 3)
    private, release, others = (pictures(n, n, shape) for n in (30, 40, 20))
    found = reconstruct(private, release, others)
    for asked, side in ((private, found.private), (others, found.held_out)):
        apart = asked[:, None].astype(float) - release[None]
        every = (apart**2).mean(axis=(2, 3, 4))
        assert side.rows.tolist() == every.argmin(axis=1).tolist()
        assert side.mse == pytest.approx(every.min(axis=1))
        assert side.ssim.tolist() == ssim(asked, release[side.rows]).tolist()


@pytest.mark.parametrize("count", [10, 60])
def test_few_held_out_images_are_matched_worse_by_more_than_one_in_a_hundred(count: int) -> None:
    rng, shares = np.random.default_rng(0), []
    for _ in range(300):
        sides = (rng.normal(size=rows) for rows in (200, count))
        found = Reconstruction(*(Matches(np.zeros(len(mse), int), mse, mse) for mse in sides))
        shares.append(found.closer.value)
    assert found.chance == pytest.approx(np.mean(shares), rel=0.2)


def test_copies_among_the_release_are_found() -> None:
    private, release, others = pictures(400, 1), pictures(300, 2), pictures(400, 3)
    release[7], release[9] = private[33], np.clip(private[5].astype(int) + 3, 0, 255)
    release[100:140] = private[200:240]
    found = reconstruct(private, release, others)
    assert found.private.rows[[33, 5]].tolist() == [7, 9]
    assert found.private.psnr[33] == np.inf
    assert found.private.psnr[5] > 35
    assert np.flatnonzero(found.private.mse == 0).tolist() == [33, *range(200, 240)]
    assert found.closer.value >= 42 / 400
    assert found.closer.low > 0.05
    assert found.held_out.psnr.max() < 15

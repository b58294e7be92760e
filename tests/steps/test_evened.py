"""Descriptions along the axes of public ones: there and back, and where noise falls."""

import numpy as np

from understudy.steps.evened import EvenedSpace


class Numbers:
    """A space whose descriptions are the rows themselves."""

    dim = 6

    def forward(self, values):
        return np.asarray(values, dtype=np.float32)

    def backward(self, values, rng):
        return np.asarray(values, dtype=np.float32)


def rows(count, seed=0):
    """Numbers that go together: some combinations of them hardly vary."""
    rng = np.random.default_rng(seed)
    mix = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    return (rng.normal(size=(count, 6)) * [3.0, 1.0, 0.5, 0.3, 0.1, 0.05]) @ mix


def test_points_come_back_as_they_were():
    space = EvenedSpace.of(Numbers(), np.cov(rows(2000).T))
    points = rows(50, seed=2)
    np.testing.assert_allclose(
        space.backward(space.forward(points).astype(np.float64), None), points, atol=1e-5
    )
    assert space.dim == 6


def test_axes_vary_more_alike_and_keep_their_order():
    public = rows(2000)
    found = EvenedSpace.of(Numbers(), np.cov(public.T)).forward(public).std(axis=0)
    assert (np.diff(found) < 0).all()
    assert found[0] / found[-1] < 15  # of numbers as they are, 60


def test_equal_noise_blurs_public_variety_less():
    public = rows(4000)
    noise = np.random.default_rng(3).normal(size=public.shape)
    space = EvenedSpace.of(Numbers(), np.cov(public.T))
    deviations = np.linalg.inv(np.linalg.cholesky(np.cov(public.T)))

    def blur(moved, usual):
        """Noise of a tenth of the usual length, in deviations of public numbers."""
        part = noise * 0.1 * np.sqrt((usual**2).sum(axis=1).mean() / 6)
        return np.sqrt((((moved(part)) @ deviations.T) ** 2).mean())

    evened = blur(lambda part: space.backward(part, None), space.forward(public))
    assert evened < 0.5 * blur(lambda part: part, public)


def test_variances_are_those_of_public_points():
    public = rows(20_000)
    space = EvenedSpace.of(Numbers(), np.cov(public.T))
    np.testing.assert_allclose(space.variances, space.forward(public).var(axis=0), rtol=0.02)
    assert (np.diff(space.variances) < 0).all()

import numpy as np
import pytest
from numpy.typing import NDArray

from understudy.backends.embedded.wavelets import bank, max_littlewood_paley
from understudy.backends.registry import load_encoder
from understudy.core.types import Images, Shape

torch = pytest.importorskip("torch")

BANKS = [(1, 4), (2, 8), (3, 6)]


def noise(shape: Shape, rows: int = 6, seed: int = 1) -> Images:
    return np.random.default_rng(seed).integers(0, 256, (rows, *shape), dtype=np.uint8)


def blob(shift: int) -> Images:
    """A soft spot of 32 x 32 pixels, moved to the right."""
    row, column = np.indices((32, 32))
    spot = np.exp(-((row - 15) ** 2 + (column - 13 - shift) ** 2) / 18)
    return np.rint(255 * spot).astype(np.uint8)[None, ..., None]


# An independent transcription of the definition, with no stride, no convolution routine and no
# filter bank: every filter is written out again, every sum is a loop over its taps.


def plain_gaussian(scale: float, reach: int) -> NDArray[np.complex128]:
    taps = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * scale**2))
    return (np.outer(taps, taps) / taps.sum() ** 2).astype(complex)


def plain_morlet(octave: int, angle: float, slant: float) -> NDArray[np.complex128]:
    sigma, reach = 0.8 * 2**octave, 4 * 2**octave
    size = 2 * reach + 1
    taps = np.zeros((size, size), dtype=complex)
    envelope = np.zeros((size, size))
    for row in range(size):
        for column in range(size):
            y, x = row - reach, column - reach
            u = np.cos(angle) * x + np.sin(angle) * y
            v = -np.sin(angle) * x + np.cos(angle) * y
            envelope[row, column] = np.exp(-(u * u + slant * slant * v * v) / (2 * sigma**2))
            taps[row, column] = envelope[row, column] * np.exp(1j * 0.75 * np.pi * u / 2**octave)
    taps -= envelope * taps.sum() / envelope.sum()
    return taps * slant / (2 * np.pi * sigma**2)


def convolved(
    image: NDArray[np.complex128], taps: NDArray[np.complex128]
) -> NDArray[np.complex128]:
    """Full-resolution convolution, zero outside the image."""
    reach = len(taps) // 2
    height, width = image.shape
    padded = np.pad(image, reach)
    out = np.zeros(image.shape, dtype=complex)
    for row in range(len(taps)):
        for column in range(len(taps)):
            top, left = 2 * reach - row, 2 * reach - column
            out += taps[row, column] * padded[top : top + height, left : left + width]
    return out


def plain_scattering(image: NDArray[np.float64], octaves: int, angles: int) -> list[NDArray]:
    """[S0, S1, S2] up to a factor for each bank used, as (paths, positions, positions)."""
    step, slant = 2**octaves, 4 / angles

    def average(maps: NDArray[np.float64], left: int) -> NDArray[np.float64]:
        smooth = convolved(maps.astype(complex), plain_gaussian(0.8 * 2 ** (left - 1), 2 * 2**left))
        return smooth.real[:: 2**left, :: 2**left]

    thetas = [np.pi * index / angles for index in range(angles)]
    orders: list[list[NDArray]] = [[average(image, octaves)], [], []]
    for j in range(octaves):
        for theta in thetas:
            first = np.abs(convolved(image.astype(complex), plain_morlet(j, theta, slant)))
            first = first[:: 2**j, :: 2**j]
            orders[1].append(average(first, octaves - j))
            for coarser in range(j + 1, octaves):
                # On the coarser grid a wavelet of octave k is one of octave k - j.
                for other in thetas:
                    second = np.abs(
                        convolved(first.astype(complex), plain_morlet(coarser - j, other, slant))
                    )[:: 2 ** (coarser - j), :: 2 ** (coarser - j)]
                    orders[2].append(average(second, octaves - coarser))
    assert orders[0][0].shape == (-(-image.shape[0] // step), -(-image.shape[1] // step))
    return [np.stack(order) for order in orders]


def test_it_follows_the_definition() -> None:
    octaves, angles, shape = 2, 4, (14, 17, 1)
    image = noise(shape, rows=1)
    encoder = load_encoder(f"embedded:scattering?J={octaves}&L={angles}", shape=shape)
    found = encoder.encode(image)[0].reshape(-1, 4, 5)
    s0, s1, s2 = plain_scattering(image[0, ..., 0] / 255, octaves, angles)
    # The gains of the two banks, from the two filters that each has: phi and psi.
    coarse, fine = bank(2, angles, 17), bank(1, angles, 9)
    low = [kernel.lowpass.sum() ** 2 for kernel in (coarse, fine)]
    high = [
        np.abs(coarse.wavelets[j][0]).max() / np.abs(plain_morlet(j, 0, 4 / angles)).max()
        for j in range(2)
    ]
    second = (
        np.abs(bank(2, angles, 17).wavelets[1][0]).max()
        / np.abs(plain_morlet(1, 0, 4 / angles)).max()
    )
    slack = 1e-4 * np.abs(found).max()
    np.testing.assert_allclose(found[:1], s0 * low[0], atol=slack)
    # Order of the paths: S0; S1 of octave 0, then its S2; S1 of octave 1.
    np.testing.assert_allclose(found[1:5], s1[:4] * low[0] * high[0], atol=slack)
    np.testing.assert_allclose(found[5:21], s2 * low[1] * high[0] * second, atol=slack)
    np.testing.assert_allclose(found[21:], s1[4:] * low[1] * high[1], atol=slack)


@pytest.mark.parametrize(("octaves", "angles"), BANKS)
def test_no_frequency_is_amplified(octaves: int, angles: int) -> None:
    """The Littlewood-Paley sum, on a finer grid than the bank was fitted on."""
    filters = bank(octaves, angles, 20)

    def spectra(kernels: NDArray, gain: float) -> NDArray[np.complex128]:
        return np.fft.fft2(kernels / gain, s=(256, 256))

    waves = [spectra(kernels, 2**j) for j, kernels in enumerate(filters.wavelets)]
    low = spectra(np.outer(filters.lowpass, filters.lowpass)[None], 2**octaves)
    total = np.abs(low[0]) ** 2 + sum(
        (np.abs(wave) ** 2 + np.abs(np.roll(wave[:, ::-1, ::-1], 1, (1, 2))) ** 2).sum(0) / 2
        for wave in waves
    )
    assert total.max() <= 1.001
    assert total.max() > 0.85  # and not by making everything small
    assert max_littlewood_paley(waves) <= total.max() + 1e-9


@pytest.mark.parametrize(
    "options",
    ["", "?J=3&L=4&log=10", "?colour=opponent"],
)
def test_it_never_stretches_a_difference(options: str) -> None:
    shape = (16, 20, 3)
    encoder = load_encoder(f"embedded:scattering{options}", shape=shape)
    images = np.concatenate([noise(shape, 12), noise(shape, 6) // 128 * 255])
    assert not encoder.encode(np.zeros((2, *shape), dtype=np.uint8)).any()
    near = images.copy()
    near[:, 7, 9] ^= 64
    pixels = np.concatenate([images, near]).reshape(36, -1) / 255
    embeddings = encoder.encode(np.concatenate([images, near])).astype(np.float64)
    for x in range(36):
        apart = np.linalg.norm(pixels - pixels[x], axis=1)
        found = np.linalg.norm(embeddings - embeddings[x], axis=1)
        assert (found <= apart * (1 + 1e-5) + 1e-5).all()


def test_a_small_shift_changes_little() -> None:
    encoder = load_encoder("embedded:scattering?J=3", shape=(32, 32, 1))

    def change(shift: int) -> tuple[float, float]:
        still, moved = encoder.encode(blob(0)), encoder.encode(blob(shift))
        pixels = np.linalg.norm(blob(0) / 255 - blob(shift) / 255) / np.linalg.norm(blob(0) / 255)
        return float(np.linalg.norm(still - moved) / np.linalg.norm(still)), float(pixels)

    found = [change(shift) for shift in (1, 2, 4)]
    assert all(embedded < 0.75 * pixels for embedded, pixels in found)
    assert found[0][0] < found[1][0] < found[2][0]


def test_all_of_the_spectrum_keeps_distances_and_less_of_it_is_its_start() -> None:
    shape, images = (20, 17, 3), noise((20, 17, 3))
    plain = load_encoder("embedded:scattering", shape=shape).encode(images)
    dim = plain.shape[1]
    whole = load_encoder(f"embedded:scattering?coefficients={dim}", shape=shape).encode(images)
    part = load_encoder("embedded:scattering?coefficients=100", shape=shape).encode(images)
    np.testing.assert_allclose(part, whole[:, :100], atol=1e-6)
    np.testing.assert_allclose(whole @ whole.T, plain @ plain.T, rtol=1e-4)
    assert np.linalg.norm(whole - plain) > 1


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_threads_changes_nothing(threads: int) -> None:
    images = noise((28, 28, 1), rows=40)
    encoder = load_encoder("embedded:scattering", shape=(28, 28, 1))
    expected, before = encoder.encode(images), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        other = load_encoder("embedded:scattering", shape=(28, 28, 1))  # it has threads of its own
        np.testing.assert_array_equal(other.encode(images), expected)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)

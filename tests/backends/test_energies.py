"""embedded:energies: the transform, its layout, and the search for images of an embedding."""

from typing import Any

import numpy as np
import pytest
import torch

from understudy.backends.embedded.energies import energy_models, transform
from understudy.backends.embedded.energies.energy_models import EnergyDecoder, EnergyEncoder
from understudy.backends.registry import load_decoder, load_encoder
from understudy.core.matching import BlockEncoder, Layout, MatchingDecoder
from understudy.data import open_source

SHAPES = [(16, 16, 1), (28, 28, 1), (48, 64, 3), (128, 128, 3)]


def bars(shape: tuple[int, int, int], angle: float, count: int = 4) -> np.ndarray:
    """Images of stripes at an angle, shifted each by a quarter of a period."""
    height, width, channels = shape
    rows, columns = np.mgrid[:height, :width] / height
    phase = np.arange(count)[:, None, None] * np.pi / 2
    wave = np.sin(2 * np.pi * 6 * (columns * np.cos(angle) + rows * np.sin(angle)) + phase)
    pixels = np.rint(127.5 + 100 * wave).astype(np.uint8)
    return np.repeat(pixels[..., None], channels, axis=3)


NOTHING = Layout.of([]), np.zeros(0)


def matched(
    decoder: MatchingDecoder, wanted: np.ndarray, layout: Layout, metric: np.ndarray
) -> np.ndarray:
    """Images for numbers, (n, d), of records that are as wide as public images."""
    ones, seeds = np.ones((len(wanted), len(layout.blocks))), np.arange(len(wanted))
    known = (wanted, layout, metric, ones[0], ones, *NOTHING)
    return decoder.match(*known, seeds=seeds.astype(np.uint64))


@pytest.mark.parametrize("shape", SHAPES)
def test_encoder_and_decoder_take_every_size(
    shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(energy_models, "_STEPS", 2)
    encoder = load_encoder("embedded:energies", shape=shape)
    decoder = load_decoder("embedded:energies", shape=shape, encoder=encoder)
    assert isinstance(encoder, BlockEncoder)
    assert isinstance(decoder, MatchingDecoder)
    embeddings = encoder.encode(bars(shape, 0.3))
    assert embeddings.shape == (4, encoder.dim)
    assert embeddings.dtype == np.float32
    layout = encoder.layout(60)
    images = matched(decoder, embeddings[:, layout.columns], layout, np.eye(layout.dim))
    assert images.shape == (4, *shape)
    assert images.dtype == np.uint8


def test_cosines_there_and_back_keep_a_small_image() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(40, 215, (3, 24, 30, 3)).astype(np.uint8)
    values = transform.coefficients(images)
    np.testing.assert_allclose(transform.pixels(values, 24, 30), images, atol=1)


def test_a_grey_image_has_the_luma_of_the_same_image_in_colour() -> None:
    grey = bars((64, 64, 1), 0.8)
    colour = np.repeat(grey, 3, axis=3)
    np.testing.assert_allclose(
        transform.coefficients(grey)[:, 0], transform.coefficients(colour)[:, 0], atol=1e-4
    )


def test_energies_say_the_angle_of_stripes_and_not_their_phase() -> None:
    flat, steep = bars((32, 32, 1), 0.0), bars((32, 32, 1), np.pi / 2)
    values = [torch.from_numpy(transform.coefficients(images)) for images in (flat, steep)]
    energies = [transform.luma_features(value)[:, : 24 * 64] for value in values]
    upright, level = (part.reshape(4, 24, 64).numpy() for part in energies)
    # The first of eight angles answers to waves along the columns, the fifth to those along rows.
    assert upright[:, 0].mean() > 1.5 * upright[:, 4].mean()
    assert level[:, 4].mean() > 1.5 * level[:, 0].mean()
    spread = upright[:, 0].mean(axis=1).std() / upright[:, 0].mean()
    assert spread < 0.05


def test_energies_change_as_their_gradient_says() -> None:
    """The way back of the wavelets is written by hand: it is held against differences."""
    rng = np.random.default_rng(0)
    planes, direction, weights = (
        torch.from_numpy(rng.normal(0, 0.2, shape).astype(np.float32))
        for shape in [(2, 32, 32), (2, 32, 32), (2, 24, 8, 8)]
    )

    def weighted(at: torch.Tensor) -> torch.Tensor:
        return (transform.energies(at, 3) * weights).sum(dtype=torch.float64)

    planes.requires_grad_(True)
    weighted(planes).backward()
    with torch.no_grad():
        change = weighted(planes + 1e-3 * direction) - weighted(planes - 1e-3 * direction)
        slope = (planes.grad * direction).sum()
    assert float(slope) == pytest.approx(float(change) / 2e-3, rel=1e-3)


def test_a_histogram_says_which_levels_values_are_near_and_not_where() -> None:
    levels = np.linspace(0.0, 1.0, 5)
    values = torch.tensor([[[[0.0, 0.25, 0.25, 0.375]]], [[[0.375, 0.25, 0.0, 0.25]]]])
    parts = transform.soft_histograms(values, levels) ** 2
    np.testing.assert_allclose(parts[0], parts[1])
    np.testing.assert_allclose(parts[0] - parts[0, -1], [0.25, 0.625, 0.125, 0, 0], atol=1e-6)


def test_a_histogram_descends_to_the_levels_that_are_wanted() -> None:
    levels, rng = np.linspace(0.0, 1.0, 5), np.random.default_rng(0)
    values = torch.tensor(rng.uniform(0.3, 0.7, (1, 1, 6, 6)), requires_grad=True)
    wanted = transform.soft_histograms(torch.full((1, 1, 6, 6), 0.5), levels)
    optimiser = torch.optim.Adam([values], lr=0.02)
    for _ in range(60):
        optimiser.zero_grad()
        (transform.soft_histograms(values, levels) - wanted).square().sum().backward()
        optimiser.step()
    assert (values - 0.5).abs().max() < 0.1


def test_histograms_of_luma_say_how_much_is_black_and_how_much_is_flat() -> None:
    images = np.full((2, 32, 32, 1), 128, dtype=np.uint8)
    images[0, :16] = 0
    images[1, ::2] = 255
    values = torch.from_numpy(transform.coefficients(images))
    half_black, striped = transform.luma_features(values)[:, -transform.BINS :]
    levels = transform.BINS - 5  # then come five lengths of gradients
    assert half_black[0] > 0.6 > 0.2 > striped[0]
    assert half_black[levels] > 0.6 > 0.2 > striped[levels]


def test_a_layout_is_cosines_and_energies_in_blocks_of_one_kind() -> None:
    encoder = EnergyEncoder((64, 64, 3))
    layout = encoder.layout(200)
    assert layout.dim == 200
    assert len(np.unique(layout.columns)) == 200
    assert layout.blocks[0].start == 0
    assert layout.blocks[-1].stop == 200
    assert all(a.stop == b.start for a, b in zip(layout.blocks, layout.blocks[1:], strict=False))
    smaller = set(encoder.layout(80).columns.tolist())
    assert smaller <= set(layout.columns.tolist())


def test_a_match_is_near_its_target() -> None:
    shape = (32, 32, 1)
    encoder, decoder = EnergyEncoder(shape), EnergyDecoder(shape)
    layout = encoder.layout(120)
    wanted = encoder.encode(bars(shape, 0.6))[:, layout.columns]
    images = matched(decoder, wanted, layout, np.eye(120) / 0.3)
    reached = encoder.encode(images)[:, layout.columns]
    others = encoder.encode(bars(shape, 2.2))[:, layout.columns]
    assert np.square(reached - wanted).mean() < 0.1 * np.square(others - wanted).mean()


def test_other_numbers_are_near_their_mean_over_all_images() -> None:
    drawn = next(open_source("procedural:all?count=24&channels=1", size=32).batches(24)).values
    encoder, decoder = EnergyEncoder((32, 32, 1)), EnergyDecoder((32, 32, 1))
    numbers, layout = encoder.encode(drawn), encoder.layout(40)
    others = encoder.layout(encoder.dim).without(layout)
    common = numbers[:, others.columns].mean(axis=0)
    ones, seeds = np.ones((24, len(layout.blocks))), np.arange(24, dtype=np.uint64)
    known = (numbers[:, layout.columns], layout, np.eye(40) / 0.3, ones[0], ones)

    def misses(*of_others: Any) -> tuple[float, float]:
        reached = encoder.encode(decoder.match(*known, *of_others, seeds=seeds))
        own = reached[:, layout.columns] - known[0]
        return np.linalg.norm(reached[:, others.columns].mean(axis=0) - common), np.abs(own).mean()

    (near, own), (far, own_without) = misses(others, common), misses(*NOTHING)
    assert near < 0.8 * far
    assert own < 1.3 * own_without


def test_an_image_depends_on_its_own_target_and_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy_models, "_MATCHED", 6)
    monkeypatch.setattr(energy_models, "_STEPS", 10)
    shape = (16, 16, 1)
    encoder, decoder = EnergyEncoder(shape), EnergyDecoder(shape)
    layout = encoder.layout(40)
    wanted = np.repeat(encoder.encode(bars(shape, 0.6))[:, layout.columns], 2, axis=0)
    seeds = np.arange(8, dtype=np.uint64)
    sizes = np.ones(len(layout.blocks))
    widths = np.linspace(0.5, 2.0, 8)[:, None] * np.linspace(1.0, 1.5, len(sizes))

    def images(rows: slice, of_seeds: np.ndarray) -> np.ndarray:
        given = wanted[rows], layout, np.eye(40), sizes, widths[rows], *NOTHING
        return decoder.match(*given, seeds=of_seeds).astype(int)

    together, alone = images(slice(8), seeds), images(slice(7, 8), seeds[7:])
    assert np.abs(together[7] - alone[0]).max() <= 2
    other = images(slice(7, 8), seeds[:1])
    assert np.abs(other[0] - alone[0]).max() > 2


@pytest.mark.slow
def test_fine_colours_are_those_of_the_coarse_ones() -> None:
    """Energies tell no colour from its opposite: brown fingers came back partly blue."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:64, :64]
    hands, images = [], []
    for shift in rng.integers(-6, 7, 16):
        palm = np.hypot(rows - 50, columns - 26 - shift) < 15
        fingers = (rows > 14) & (rows < 50) & ((columns - 13 - shift) % 9 < 5)
        hand = palm | (fingers & (abs(columns - 26 - shift) < 15))
        hands.append(hand)
        light = 1 + 0.1 * rng.standard_normal((64, 64, 1))
        images.append(np.where(hand[..., None], (150, 95, 60) * light, (185, 185, 190)))
    encoder, decoder = EnergyEncoder((64, 64, 3)), EnergyDecoder((64, 64, 3))
    layout = encoder.layout(90)
    wanted = encoder.encode(np.stack(images).astype(np.uint8))[:, layout.columns]
    decoded = matched(decoder, wanted, layout, np.eye(layout.dim)).astype(float)
    blue = decoded[..., 2] > decoded[..., 0]
    assert blue[np.stack(hands)].mean() < 0.08


@pytest.mark.slow
def test_fine_colours_depart_from_the_coarse_ones_where_energies_say_so() -> None:
    """Bound to a multiple of luma, samples had other energies of chroma than the records."""
    rng = np.random.default_rng(0)
    shape, count = (64, 64, 3), 16
    columns = np.arange(64) / 64
    stripes = np.sin(2 * np.pi * 6 * columns)[None, :, None] * np.array([1.0, -0.5, 0.0])
    strength = np.linspace(0, 80, count)[:, None, None, None]
    light = rng.normal(0, 10, (count, 64, 64, 1))
    images = (128 + light + strength * stripes).round().clip(0, 255).astype(np.uint8)
    encoder, decoder = EnergyEncoder(shape), EnergyDecoder(shape)
    layout = encoder.layout(90)
    wanted = encoder.encode(images)[:, layout.columns]
    metric = np.diag(1 / np.maximum(wanted.std(axis=0), 0.05))
    decoded = matched(decoder, wanted, layout, metric)
    chroma = layout.blocks[-1]
    reached = encoder.encode(decoded)[:, layout.columns[chroma]]
    spread = wanted[:, chroma] - wanted[:, chroma].mean(axis=0)
    assert np.square(reached - wanted[:, chroma]).mean() < 0.85 * np.square(spread).mean()


def test_an_image_is_as_bright_and_of_as_much_contrast_as_its_cosines() -> None:
    """Where the energies were those of another image, as of draws, it was dark and pale."""
    images = next(open_source("procedural:all?count=48", size=32).batches(48)).values // 2 + 64
    encoder, decoder = EnergyEncoder((32, 32, 3)), EnergyDecoder((32, 32, 3))
    layout, numbers = encoder.layout(200), energy_models._Numbers((32, 32, 3))
    wanted = encoder.encode(images)[:, layout.columns]
    cosines = layout.columns < len(numbers.cosines)
    wanted[:, ~cosines] = np.roll(wanted[:, ~cosines], 7, axis=0)
    found = encoder.encode(matched(decoder, wanted, layout, np.eye(200) / 0.3))[:, layout.columns]
    index = numbers.cosines[layout.columns[cosines]]
    pixels = numbers.axes.deviations.reshape(-1)[index]
    of_wanted, of_found = (each[:, cosines] * pixels for each in (wanted, found))
    mean = index % transform.COSINES**2 == 0
    misses = np.abs(of_found - of_wanted)[:, mean].mean(axis=0)
    assert (misses < 0.15 * of_wanted[:, mean].std(axis=0)).all()
    contrast = [np.linalg.norm(each[:, ~mean], axis=1) for each in (of_found, of_wanted)]
    assert np.quantile(contrast[0] / contrast[1], 0.1) > 0.95

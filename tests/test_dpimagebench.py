"""DPImageBench's protocol: which images are private, and networks of the published sizes."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from benchmarks.dpimagebench import resized, split
from benchmarks.dpimagebench_networks import COLOUR, GREY, QUICK, Training, fit

from understudy.metrics.utility import Labelled

PARAMETERS = {  # He et al. 2016, Zagoruyko and Komodakis 2016, Xie et al. 2017, in millions
    "ResNet-110": 1.7,
    "WRN-40-4": 8.9,
    "ResNeXt-29 8x64d": 34.4,
    "ResNet-164": 1.7,
    "WRN-28-10": 36.5,
}


@pytest.mark.slow
def test_networks_have_as_many_parameters_as_their_papers_say() -> None:
    for network in (*GREY, *COLOUR):
        count = sum(each.numel() for each in network.build(3, 10).parameters()) / 1e6
        assert count == pytest.approx(PARAMETERS.get(network.name, count), rel=0.03)


def squares(count: int) -> Labelled:
    """Dark and bright grey images."""
    labels = np.arange(count) % 2
    values = np.where(labels == 1, 200, 40)[:, None, None, None] + np.zeros((1, 12, 12, 1))
    return Labelled(values.astype(np.uint8), labels, ("dark", "bright"))


def test_a_split_is_that_of_random_split_with_seed_0() -> None:
    data = squares(30)
    data.values[:, 0, 0, 0] = np.arange(30)
    private, held_out = split(data, 20)
    generator = torch.Generator().manual_seed(0)
    parts = torch.utils.data.random_split(range(30), [20, 10], generator=generator)
    assert private.values[:, 0, 0, 0].tolist() == list(parts[0])
    assert held_out.values[:, 0, 0, 0].tolist() == list(parts[1])


def test_the_central_square_is_what_is_shrunk() -> None:
    images = np.zeros((1, 40, 60, 3), np.uint8)
    images[:, :, 10:50] = 255
    assert (resized(images, 16) == 255).all()


@pytest.mark.slow
@pytest.mark.parametrize("classes", [("dark", "bright"), ("bright", "dark")])
def test_the_quick_form_learns_what_is_plain_to_see(classes: tuple[str, str]) -> None:
    training = Training("adam", 3e-4, 4, 6, 16)  # its average is over 24 steps, not 10,000
    train, validation, test = (
        replace(part, classes=classes, labels=part.labels ^ (classes[0] == "bright"))
        for part in (squares(64), squares(20), squares(40))
    )
    assert fit(QUICK[0], training, train, validation, test) == (1.0, 1.0)

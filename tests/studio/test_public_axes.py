"""`understudy studio axes`: statistics of public images, and the file that holds them."""

from dataclasses import fields

import numpy as np
import pytest

pytest.importorskip("torch")

from understudy.backends.embedded.energies.energy_models import EnergyEncoder
from understudy.backends.embedded.energies.transform import PublicAxes
from understudy.data import open_source
from understudy.studio import public_axes
from understudy.studio.public_axes import axes_of_images


@pytest.fixture(scope="module")
def leaves():
    source = open_source("procedural:leaves?count=300")
    return np.concatenate([batch.values for batch in source.batches(100)])


def test_what_is_written_is_what_is_read(leaves, tmp_path, monkeypatch):
    monkeypatch.setattr(public_axes, "_FEWEST", 100)
    axes = axes_of_images([leaves])
    axes.write(tmp_path / "axes.safetensors")
    again = PublicAxes.read(tmp_path / "axes.safetensors")
    for part in fields(PublicAxes):
        wanted, value = getattr(axes, part.name), getattr(again, part.name)
        np.testing.assert_allclose(value, wanted, rtol=2e-3, atol=1e-3 * np.abs(wanted).max())


def test_public_images_vary_by_one_half_along_every_axis(leaves, monkeypatch):
    monkeypatch.setattr(public_axes, "_FEWEST", 100)
    axes = axes_of_images([leaves])
    encoder = EnergyEncoder(leaves.shape[1:])
    encoder._numbers.axes = axes
    first = len(encoder._numbers.cosines)
    luma = encoder.encode(leaves)[:, first : first + 100]
    np.testing.assert_allclose(luma.std(axis=0), 0.5, rtol=0.02)
    np.testing.assert_allclose(luma.mean(axis=0), 0.0, atol=0.01)

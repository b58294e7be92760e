"""Models of the device: trained here, measured on the owner's photos, replaced and rolled back."""

from dataclasses import replace

import numpy as np
import pytest
from tests.device.device_site import CLASSES, DeviceSite, colour_model
from tests.methods.sanitize.painted_world import SIDE

from understudy.backends.onnx_model import OnnxModel, OnnxOptions
from understudy.core.errors import RunError, SourceError, WireError
from understudy.device.home_training import stratified_folds, train_here
from understudy.device.installed_models import (
    DeviceModel,
    judged_photo,
    model_index,
    model_path,
    offer_model,
    roll_back,
)
from understudy.device.photo_store import labelled_photos

OFFERED = DeviceModel("", "server", "classifier", CLASSES, SIDE, 0.9)


@pytest.mark.slow
def test_a_model_replaces_another_only_where_it_is_better(site: DeviceSite) -> None:
    site.add_labelled()
    for wish in (False, True):
        worse = offer_model(site.home, colour_model(gain=-1), OFFERED, wish=wish)
        assert (worse.installed, worse.model.accuracy) == (wish, 0)
    constant = offer_model(site.home, colour_model(gain=0, bias=1), OFFERED)
    assert (constant.installed, constant.model.accuracy) == (False, 0.5)
    assert "the commonest class alone in 50%" in constant.reason
    better = offer_model(site.home, colour_model(), OFFERED)
    assert (better.installed, better.model.accuracy) == (True, 1)
    again = offer_model(site.home, colour_model(gain=2), OFFERED)
    assert not again.installed
    assert "100% of 6 labelled photos, the installed one in 100% of the 6" in again.reason
    assert model_index(site.home).current == better.model
    wished = offer_model(site.home, colour_model(gain=2), OFFERED, wish=True)
    assert model_index(site.home).current == wished.model
    assert roll_back(site.home) == better.model
    assert roll_back(site.home) == worse.model
    with pytest.raises(RunError, match=r"no model was installed before.* stays installed"):
        roll_back(site.home)
    assert model_index(site.home).current == worse.model
    assert len(model_index(site.home).models) == 4


@pytest.mark.slow
def test_without_labels_the_first_is_installed_and_others_on_wish(site: DeviceSite) -> None:
    first = offer_model(site.home, colour_model(), OFFERED)
    assert (first.installed, first.model.accuracy) == (True, None)
    second = offer_model(site.home, colour_model(gain=3), OFFERED)
    assert not second.installed
    assert "no labelled photos" in second.reason
    other = offer_model(site.home, colour_model(gain=4), replace(OFFERED, classes=("a", "b")))
    assert "another question" in other.reason
    with pytest.raises(SourceError, match=r"none\.png: cannot be read: No such file or directory$"):
        judged_photo(site.home, site.folder / "none.png")


def test_a_hostile_model_is_neither_stored_nor_run(
    site: DeviceSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.add_labelled()
    (site.folder / "onnx.py").write_text("raise SystemExit('a file of the folder was run')")
    monkeypatch.chdir(site.folder)
    with pytest.raises(WireError):
        offer_model(site.home, b"no model", OFFERED, wish=True)
    assert not site.home.path("models").exists()


@pytest.mark.slow
def test_a_classifier_learns_on_the_device_from_labels_alone(
    site: DeviceSite, one_thread: None
) -> None:
    site.add_labelled(3)
    lines: list[str] = []
    result = train_here(site.home, epochs=6, report=lines.append)
    assert result.installed
    assert result.model.accuracy == result.model.validation
    assert result.model.accuracy >= 0.75
    assert result.model.origin.endswith("nothing left")
    assert len(lines) == 4
    photos, path = labelled_photos(site.home), model_path(site.home, result.model.digest)
    scores = OnnxModel(str(path), OnnxOptions()).run(
        photos.images.transpose(0, 3, 1, 2).astype(np.float32)
    )
    assert [result.model.classes[row.argmax()] for row in scores] == list(photos.labels)
    assert path.stat().st_size < 2_500_000


def test_folds_are_even_in_every_class() -> None:
    labels = np.repeat([0, 1, 2], [8, 4, 4])
    masks = stratified_folds(labels, 4, 0)
    assert (np.sum(masks, axis=0) == 1).all()
    assert all(np.bincount(labels[mask]).tolist() == [2, 1, 1] for mask in masks)

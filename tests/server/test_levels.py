"""The whole way of a job at L2: items are sent, four stages run, a signed model comes back."""

from pathlib import Path

import numpy as np
import pytest

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
pytest.importorskip("torch")

from tests.cli.processes import WHOLE  # noqa: E402
from tests.device.device_site import install_colours  # noqa: E402
from tests.methods.sanitize.painted_models import RED, SIZES, ColourTuner, Painter  # noqa: E402
from tests.methods.sanitize.painted_world import SIDE, ColourSegmenter, rooms  # noqa: E402
from tests.server.site import Device, Server, Submitted, free_port  # noqa: E402
from tests.server.test_connections import finish_a_job, pair, serving_process  # noqa: E402

from understudy.core.types import Images, Labels  # noqa: E402
from understudy.device.home_folder import DeviceHome  # noqa: E402
from understudy.device.installed_models import DeviceModel, offer_model  # noqa: E402
from understudy.device.model_trial import try_model  # noqa: E402
from understudy.methods.sanitize import wire  # noqa: E402
from understudy.methods.sanitize.customise import TuningPlan  # noqa: E402
from understudy.methods.sanitize.signed_results import decode_model  # noqa: E402
from understudy.methods.sanitize.spinml_pipeline import SpinmlPipeline  # noqa: E402
from understudy.methods.sanitize.wire_items import BackgroundItem, TargetItem  # noqa: E402
from understudy.metrics.box_maps import decode_boxes  # noqa: E402
from understudy.server.model_training import SmallModelTraining  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def disclosed(kind: str, classes: tuple[str, ...], images_per_class: int) -> Submitted:
    """A job of three photos, object and background at L2."""
    images, masks = rooms(3)
    empty = images.copy()
    empty[masks] = 150
    arrays = {
        0: [BackgroundItem.of(one) for one in empty],
        1: [TargetItem.of(1, *pair) for pair in zip(images, masks, strict=True)],
    }
    manifest, items = wire.manifest_of(arrays)
    request = wire.JobRequest(
        target_object=(wire.PartRequest(noun="dog", level=2),),
        background=wire.PartRequest(noun="room", level=2),
        training_object=kind,
        label_classes=classes,
        side=SIDE,
        references=3,
        images_per_class=images_per_class,
    )
    return Submitted(wire.JobSubmission(request=request, manifest=manifest), items)


def at_home(count: int) -> tuple[Images, Labels]:
    """Tall and wide dogs in the owner's room."""
    photos, masks = rooms(count, seed=9)
    photos[masks] = 150
    rng, labels = np.random.default_rng(0), np.arange(count) % 2
    for photo, label in zip(photos, labels, strict=True):
        height, width = SIZES["sitting" if label == 0 else "sleeping"]
        top = rng.integers(SIDE // 2, SIDE) - height + 1  # it stands in the lower half
        left = rng.integers(1, SIDE - width)
        photo[top : top + height, left : left + width] = RED
    return photos, labels


def server(folder: Path, epochs: int) -> Server:
    pipeline = SpinmlPipeline(
        Painter(),
        ColourSegmenter(),
        SmallModelTraining(epochs=epochs),
        tuner=ColourTuner(),
        plan=TuningPlan({}),
    )
    return Server(folder, pipeline=pipeline)


def installed(folder: Path, result: wire.ModelResult, data: bytes) -> bool:
    """Whether a device takes the model."""
    offered = DeviceModel(
        "", "server", result.kind, result.label_classes, result.side, result.validation
    )
    return offer_model(DeviceHome.of(folder / "device"), data, offered).installed


@pytest.mark.slow
def test_a_server_process_from_pairing_to_receipt(tmp_path: Path) -> None:
    """`understudy serve` over TLS, all four stages in its worker, and nothing left of the job."""
    install_colours(tmp_path / "plugin")
    command = ("-c", WHOLE, "serve")
    words = ["--data", tmp_path / "server", "--port", free_port()]
    words += ["--generator", "colours:red", "--segmenter", "colours:red"]
    with serving_process(*words, command=command, path=str(tmp_path / "plugin")) as code:
        exchange, token = pair(code)
        job = disclosed("classifier", ("sitting", "sleeping"), 4)
        _, result, model = finish_a_job(exchange, token, code.public_key, job)
        assert list((tmp_path / "server" / "keys").iterdir()) == []
    try_model(model, "classifier", SIDE, 2)
    assert len(result.directions) == 2


def signed_model(folder: Path, epochs: int, job: Submitted) -> tuple[wire.ModelResult, bytes]:
    """What a device has of its job once the server has done it."""
    one = server(folder, epochs)
    sent = Device(one.client(), one.token()).send(job)
    assert one.work()
    return decode_model(one.service.model(one.store.job(sent)), one.service.keys.public_key)


@pytest.mark.slow
def test_a_classifier_of_what_was_sent_comes_back_signed(tmp_path: Path) -> None:
    job = disclosed("classifier", ("sitting", "sleeping"), 48)
    result, model = signed_model(tmp_path, 60, job)
    assert (result.kind, result.label_classes) == ("classifier", ("sitting", "sleeping"))
    assert result.pipeline == "SpinML, all levels"
    assert result.validation > 0.7
    images, labels = at_home(60)
    pixels = images.transpose(0, 3, 1, 2).astype(np.float32)
    (scores,) = ort.InferenceSession(model).run(None, {"images": pixels})
    assert (scores.argmax(1) == labels).mean() > 0.75
    trial = try_model(model, "classifier", SIDE, 2, images)
    assert trial.labels == tuple(scores.argmax(1)[list(trial.rows)].tolist())
    assert installed(tmp_path, result, model)


@pytest.mark.slow
def test_a_detector_comes_back_signed(tmp_path: Path) -> None:
    result, model = signed_model(tmp_path, 1, disclosed("detector", ("dog",), 8))
    assert (result.kind, result.label_classes) == ("detector", ("dog",))
    assert len(model) <= 1e6
    pixels = np.zeros((2, 3, SIDE, SIDE), np.float32)
    (maps,) = ort.InferenceSession(model).run(None, {"images": pixels})
    assert len(decode_boxes(maps, (SIDE, SIDE))) == 2
    assert installed(tmp_path, result, model)

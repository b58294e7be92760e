"""(L0, L0): class prompts, a small CNN, ONNX."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from understudy.core.errors import ConfigError, InputError, UnsupportedTask
from understudy.core.types import Images, Texts
from understudy.methods.sanitize import wire
from understudy.methods.sanitize.jobs import MODEL_FILE, VALIDATION_FILE, JobMaterial, JobPipeline

torch = pytest.importorskip("torch")
ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
pytest.importorskip("uvicorn")

from understudy.methods.sanitize.text_pipeline import TextPipeline  # noqa: E402
from understudy.methods.sanitize.training_set import (  # noqa: E402
    LabelledSet,
    train_model,
    validation_split,
)
from understudy.metrics.networks import instance_resnet, small_cnn  # noqa: E402
from understudy.metrics.networks.onnx_export import onnx_bytes  # noqa: E402
from understudy.server.model_training import SmallModelTraining  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


class ColourGenerator:
    """Draws a noisy square of a colour that the prompt names, or grey."""

    name, licence, shape = "colours", "none", (16, 16, 3)
    tasks = frozenset({"text"})

    def generate(self, prompts: Texts, *, seed: int = 0) -> Images:
        images = []
        for number, prompt in enumerate(prompts):
            rng = np.random.default_rng((seed, number))
            image = rng.integers(0, 120, self.shape, np.uint8)
            for channel, colour in enumerate(("red", "green", "blue")):
                if colour in prompt:
                    image[4:12, 4:12, channel] += 100
            images.append(image)
        return np.stack(images)

    def vary(self, *args: object, **options: object) -> Images:
        raise UnsupportedTask(self.name, "variation", self.tasks)

    inpaint = control = vary


def request(**changes: object) -> wire.JobRequest:
    fields: dict[str, object] = {
        "target_object": (wire.PartRequest(noun="ball"),),
        "background": wire.PartRequest(noun="room"),
        "training_object": "classifier",
        "label_classes": ("red", "green", "blue"),
        "side": 16,
        "images_per_class": 32,
    }
    return wire.JobRequest(**{**fields, **changes})


def run(pipeline: TextPipeline, seed: int = 7) -> dict[str, dict[str, bytes]]:
    results: dict[str, dict[str, bytes]] = {}
    material = JobMaterial(
        request=request(),
        items=lambda part: (),
        result=lambda stage, name: results[stage][name],
        seed=seed,
        beat=lambda: None,
    )
    for stage in pipeline.stages:
        results[stage] = dict(pipeline.run(stage, material))
    return results


def test_text_alone_gives_a_model_that_tells_the_classes_apart() -> None:
    pipeline = TextPipeline(ColourGenerator(), SmallModelTraining(epochs=10))
    assert isinstance(pipeline, JobPipeline)
    first = run(pipeline)
    assert first == run(pipeline)
    assert float(first["export"][VALIDATION_FILE]) > 0.9
    session = ort.InferenceSession(first["export"][MODEL_FILE])
    prompts = [f"a ball {name} in a room" for name in ("red", "green", "blue")] * 20
    images = ColourGenerator().generate(prompts, seed=1234).transpose(0, 3, 1, 2)
    (scores,) = session.run(None, {"images": images.astype(np.float32)})
    assert (scores.argmax(1) == np.tile([0, 1, 2], 20)).mean() > 0.9


def test_classes_of_light_alone_fall_back_to_the_small_cnn() -> None:
    """The residual network normalises it away, and learns from images in any light."""
    labels = np.repeat(np.arange(3), 30)
    light = np.array([0.6, 0.8, 1.0])[labels]
    rng = np.random.default_rng(0)
    images = light[:, None, None, None] * rng.uniform(60, 250, (90, 16, 16, 3))
    whole = LabelledSet.of_classes(images.astype(np.uint8), labels)
    model = train_model(SmallModelTraining(epochs=10), "classifier", whole, 3, 0)
    assert model.validation > 0.9
    shape = (16, 16, 3)
    session = ort.InferenceSession(SmallModelTraining().export("classifier", model.state, shape, 3))
    pixels = whole.images.transpose(0, 3, 1, 2).astype(np.float32)
    assert (session.run(None, {"images": pixels})[0].argmax(1) == labels).mean() > 0.9


@pytest.mark.parametrize("build", [small_cnn, instance_resnet])
@pytest.mark.parametrize("side", [16, 28, 32, 64])
def test_onnx_equals_torch(build: Callable[..., torch.nn.Module], side: int) -> None:
    """Where the feature map is pooled to cells of unequal size (64 pixels), too."""
    network = build((side, side, 3), 5).eval()
    mean, gain = np.float32([120, 100, 90]), np.float32([0.02, 0.01, 0.03])
    data = onnx_bytes(network, (side, side, 3), mean, gain)
    images = np.random.default_rng(0).uniform(0, 255, (3, 3, side, side)).astype(np.float32)
    (scores,) = ort.InferenceSession(data).run(None, {"images": images})
    with torch.inference_mode():
        standard = (images - mean[:, None, None]) * gain[:, None, None]
        wanted = network(torch.from_numpy(standard)).numpy()
    assert np.abs(scores - wanted).max() < 1e-4
    assert len(data) < 2.5e6


def test_a_layer_that_cannot_be_written_is_refused() -> None:
    network = torch.nn.Sequential(torch.nn.Tanh())
    ones = np.ones(3, np.float32)
    with pytest.raises(InputError, match="Tanh"):
        onnx_bytes(network, (16, 16, 3), ones, ones)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"side": 64}, "16 pixels"),
        ({"training_object": "detector", "label_classes": ("ball",)}, "classifiers only"),
        ({"background": wire.PartRequest(noun="room", level=2), "references": 1}, "level 0"),
    ],
)
def test_what_it_cannot_do_is_said_before_anything_is_spent(
    changes: dict[str, object], reason: str
) -> None:
    objection = TextPipeline(ColourGenerator(), SmallModelTraining()).objection(request(**changes))
    assert reason in (objection or "")


def test_a_generator_without_text_is_refused() -> None:
    generator = ColourGenerator()
    generator.tasks = frozenset()
    with pytest.raises(ConfigError, match="square RGB"):
        TextPipeline(generator, SmallModelTraining())


def test_every_class_is_trained_on_and_validated() -> None:
    labels = np.repeat(np.arange(4), 7)
    trained, held_out = validation_split(labels, 3)
    assert sorted([*trained, *held_out]) == list(range(28))
    assert np.bincount(labels[held_out]).tolist() == [1, 1, 1, 1]

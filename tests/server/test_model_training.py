"""The specialised networks: which of them is taken, how they are split by and written as ONNX."""

from collections.abc import Callable

import numpy as np
import pytest

torch = pytest.importorskip("torch")
ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")
pytest.importorskip("uvicorn")

from understudy.methods.sanitize.training_set import LabelledSet, train_model  # noqa: E402
from understudy.metrics.networks.architectures import instance_resnet, small_cnn  # noqa: E402
from understudy.metrics.networks.onnx_export import onnx_bytes  # noqa: E402
from understudy.server.model_training import SmallModelTraining  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("build", "side"),
    [(small_cnn, 16), (small_cnn, 64), (instance_resnet, 28), (instance_resnet, 64)],
)
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

"""The one-stage detector finds what it was trained on, follows its seed, and goes into ONNX."""

import numpy as np
import pytest
import torch

from understudy.core.types import Found, Images
from understudy.metrics.networks.architectures import mobilenet_v2
from understudy.metrics.networks.detector import BoxNetwork, detector_ap50, one_stage_detector
from understudy.metrics.networks.detector_training import BoxGoals, detection_loss, train_detector

pytestmark = pytest.mark.usefixtures("one_thread")


def squares(n: int, seed: int, side: int = 32) -> tuple[Images, list[Found]]:
    """Grey noise with one red (0) or green (1) rectangle."""
    rng = np.random.default_rng(seed)
    images = rng.integers(60, 140, (n, side, side, 3)).astype(np.uint8)
    truth = []
    for image in images:
        size = rng.integers(8, 14, 2)
        left, top = rng.integers(0, side - size)
        right, bottom = left + size[0], top + size[1]
        label = int(rng.integers(2))
        image[top:bottom, left:right, label] = 250
        box = np.array([[left, top, right, bottom]], np.float32)
        truth.append(Found(box, np.array([label]), np.ones(1, np.float32)))
    return images, truth


def boxed(box: list[float], label: int) -> Found:
    sides = np.array([box], np.float32)
    return Found(sides, np.array([label]), np.ones(1, np.float32))


def trained(seed: int = 0, epochs: int = 4, **options: object) -> BoxNetwork:
    return train_detector(*squares(16, 1), classes=2, seed=seed, epochs=epochs, **options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_rectangles_are_found() -> None:
    detector = train_detector(*squares(96, 1), classes=2, epochs=16)
    assert detector_ap50(detector, *squares(60, 2)) > 0.9


def goals(truth: list[Found], side: int = 32) -> BoxGoals:
    return BoxGoals.of(truth, (side, side))


def test_the_loss_is_least_where_map_and_boxes_agree() -> None:
    truth = [boxed([8, 4, 20, 24], 1)]
    maps = torch.full((1, 6, 16, 16), -9.0)
    maps[0, 2:] = 0.0
    for row in range(16):
        for column in range(16):
            x, y = column + 0.5, row + 0.5
            sides = torch.tensor([x - 4, y - 2, 10 - x, 12 - y]).clamp(min=0.1)
            maps[0, 2:, row, column] = sides.log()
    # The middle (7, 7) lies on the corner of four cells: all of them are it.
    maps[0, 1, 6:8, 6:8] = 9.0
    right = float(detection_loss(maps, goals(truth)))
    assert right < 0.05
    for change in (slice(0, 2), slice(2, 6)):
        wrong = maps.clone()
        wrong[0, change] = wrong[0, change].flip(0)
        assert float(detection_loss(wrong, goals(truth))) > 10 * right


@pytest.mark.parametrize("side", [32, 64, 128])
def test_onnx_equals_torch_and_is_small(side: int) -> None:
    ort = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from understudy.metrics.networks.onnx_export import onnx_bytes

    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = one_stage_detector((side, side, 3), 2)
        images = torch.rand(4, 3, side, side) * 255
        for layer in network:
            if isinstance(layer, torch.nn.BatchNorm2d):
                torch.nn.init.uniform_(layer.weight, 0.5, 1.5)
        mean, gain = torch.tensor([120.0, 100, 90]), torch.tensor([0.02, 0.01, 0.03])
        standard = (images - mean.view(3, 1, 1)) * gain.view(3, 1, 1)
        network.train()(standard)
    data = onnx_bytes(network.eval(), (side, side, 3), mean.numpy(), gain.numpy())
    (maps,) = ort.InferenceSession(data).run(None, {"images": images.numpy()})
    with torch.inference_mode():
        wanted = network(standard).numpy()
    assert maps.shape == (4, 6, 16, 16)
    assert np.abs(maps - wanted).max() < 1e-4
    assert len(data) <= 1e6


def test_a_mobile_network_of_half_its_width_goes_into_onnx_too() -> None:
    ort = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from understudy.metrics.networks.onnx_export import onnx_bytes

    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = mobilenet_v2((32, 32, 3), 4, width=16)
        images = torch.rand(8, 3, 32, 32) * 255
        network.train()(images / 128 - 1)
    network.eval()
    mean, gain = np.full(3, 128, np.float32), np.full(3, 1 / 128, np.float32)
    data = onnx_bytes(network, (32, 32, 3), mean, gain)
    (scores,) = ort.InferenceSession(data).run(None, {"images": images.numpy()})
    with torch.inference_mode():
        wanted = network(images / 128 - 1).numpy()
    assert np.abs(scores - wanted).max() < 1e-4
    assert len(data) <= 2.5e6

"""Every network takes every size and colour it promises, and says so where it does not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from understudy.core.errors import InputError
from understudy.metrics import networks

IMAGES = [
    networks.small_cnn,
    networks.convnet,
    networks.resnet9,
    networks.instance_resnet,
    networks.wide_resnet,
    networks.resnet50,
    networks.vgg11,
    networks.mobilenet_v2,
]


def test_two_layer_is_the_papers_network() -> None:
    model = networks.two_layer(40, 7)
    hidden, normalise, _, dropout, last = model.children()
    assert hidden.weight.shape == (128, 40)
    assert normalise.num_features == 128
    assert dropout.p == 0.5
    assert last.weight.shape == (7, 128)
    assert model(torch.zeros(3, 40)).shape == (3, 7)


@pytest.mark.parametrize("shape", [(16, 16, 1), (28, 28, 1), (33, 47, 3), (64, 64, 3)])
@pytest.mark.parametrize("build", IMAGES)
def test_any_size_and_colour(build: Callable[..., Any], shape: tuple[int, int, int]) -> None:
    options = {} if build is networks.small_cnn else {"width": 4}
    model = build(shape, 5, **options)
    height, width, channels = shape
    assert model(torch.zeros(2, channels, height, width)).shape == (2, 5)


@pytest.mark.parametrize("build", [networks.small_cnn, networks.convnet])
def test_the_dense_layer_does_not_grow_with_the_image(build: Callable[..., Any]) -> None:
    sizes = [sum(p.numel() for p in build((side, side, 3), 10).parameters()) for side in (32, 224)]
    assert sizes[0] == sizes[1]


def test_light_and_contrast_of_a_whole_image_change_nothing_for_instance_normalisation() -> None:
    torch.manual_seed(0)
    model = networks.instance_resnet((32, 32, 3), 4).eval()
    images = torch.rand(2, 3, 32, 32) + 0.1
    images[:, :, 0] = images[:, :, -1] = images[..., :1] = images[..., -1:] = 0  # as the padding
    with torch.inference_mode():
        assert torch.allclose(model(images), model(2 * images), atol=1e-3)
        assert not torch.allclose(model(images), model(images.flip(2)), atol=1e-3)


def weights(model: torch.nn.Module) -> int:
    return sum(part.numel() for part in model.parameters())


def test_the_deep_networks_are_the_papers() -> None:
    """He et al. 2016, Simonyan and Zisserman 2015: torchvision's counts, less what we say."""
    with torch.device("meta"):
        found = weights(networks.resnet50((224, 224, 3), 1000))
        convolutions = weights(networks.vgg11((224, 224, 3), 1000)) - (512 * 1000 + 1000)
    assert found == 25_557_032
    assert convolutions == 9_220_480 + 2_752 * 2 - 2_752  # no biases, batch normalisation instead


def test_the_new_networks_are_the_published_ones() -> None:
    """torchvision's MobileNetV2 at 1,000 classes; the usual counts for CIFAR-10 of the others."""
    with torch.device("meta"):
        mobile = weights(networks.mobilenet_v2((224, 224, 3), 1000))
        wide = weights(networks.wide_resnet((32, 32, 3), 10))
        distilled = weights(networks.convnet((32, 32, 3), 10))
    assert mobile == 3_504_872
    assert wide == 8_949_210
    assert distilled == 320_010


def test_the_convnet_mixes_no_rows() -> None:
    model = networks.convnet((32, 32, 3), 5, width=8)
    x = torch.rand(4, 3, 32, 32)
    assert torch.allclose(model(x)[:1], model(x[:1]), atol=1e-6)


@pytest.mark.parametrize("build", [networks.resnet50, networks.wide_resnet])
def test_a_large_image_is_made_small_first(build: Callable[..., Any]) -> None:
    sides = []
    for side in (127, 128):
        model = build((side, side, 1), 3, width=4)
        model[0].register_forward_hook(lambda *found: sides.append(found[2].shape[-1]))
        assert model.eval()(torch.zeros(1, 1, side, side)).shape == (1, 3)
    assert sides == [127, 64]


@pytest.mark.parametrize(("side", "left"), [(28, 4), (63, 8), (64, 2), (224, 7)])
def test_small_images_lose_less_in_the_mobile_network(side: int, left: int) -> None:
    model = networks.mobilenet_v2((side, side, 1), 3, width=4).eval()
    found: list[int] = []
    pool = next(one for one in model if isinstance(one, torch.nn.AdaptiveAvgPool2d))
    pool.register_forward_hook(lambda *seen: found.append(seen[1][0].shape[-1]))
    model(torch.zeros(1, 1, side, side))
    assert found == [left]


def test_a_wide_network_of_no_such_depth() -> None:
    with pytest.raises(InputError, match="6 n"):
        networks.wide_resnet((32, 32, 3), 10, depth=41)


@pytest.mark.parametrize("shape", [(15, 40, 1), (40, 15, 3), (16, 16), (16, 16, 0)])
@pytest.mark.parametrize("build", IMAGES)
def test_too_small_or_no_image(build: Callable[..., Any], shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="at least 16 pixels"):
        build(shape, 2)


def test_without_torch_the_message_names_the_extra() -> None:
    program = (
        "import sys\n"
        "sys.modules['torch'] = None\n"  # as if it were not installed
        "import understudy.metrics.utility\n"
        "from understudy.core.errors import MissingExtra\n"
        "try:\n"
        "    import understudy.metrics.networks.classifier_training\n"
        "except MissingExtra as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install 'understudy[torch]'" in done.stdout, done.stderr

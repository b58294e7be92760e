"""Every network takes every size and colour it promises, and says so where it does not."""

from collections.abc import Callable

import pytest
import torch

from understudy.metrics.networks import architectures as networks


def test_two_layer_is_the_papers_network() -> None:
    model = networks.two_layer(40, 7)
    hidden, normalise, _, dropout, last = model.children()
    assert hidden.weight.shape == (128, 40)
    assert normalise.num_features == 128
    assert dropout.p == 0.5
    assert last.weight.shape == (7, 128)
    assert model(torch.zeros(3, 40)).shape == (3, 7)


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


@pytest.mark.parametrize(
    ("build", "side", "classes", "count"),
    [
        # torchvision's counts (He et al. 2016; Simonyan and Zisserman 2015, where batch
        # normalisation stands for biases, and a single layer is behind the convolutions).
        (networks.resnet50, 224, 1000, 25_557_032),
        (networks.vgg11, 224, 1000, 9_220_480 + 2_752 * 2 - 2_752 + 512 * 1000 + 1000),
        (networks.mobilenet_v2, 224, 1000, 3_504_872),
        # The usual counts for CIFAR-10.
        (networks.wide_resnet, 32, 10, 8_949_210),
        (networks.convnet, 32, 10, 320_010),
    ],
)
def test_the_networks_are_the_published_ones(
    build: Callable[..., torch.nn.Module], side: int, classes: int, count: int
) -> None:
    with torch.device("meta"):
        assert weights(build((side, side, 3), classes)) == count


def test_the_convnet_mixes_no_rows() -> None:
    model = networks.convnet((32, 32, 3), 5, width=8)
    x = torch.rand(4, 3, 32, 32)
    assert torch.allclose(model(x)[:1], model(x[:1]), atol=1e-6)

"""The networks that a release is judged by. Plain torch; every one takes and gives tensors.

All of them are built with fresh random weights from torch's default generator: seed it, or fork
it, around the call (``metrics.classifier_training`` does).
"""

from understudy.metrics.networks.blocks import SMALLEST_SIDE
from understudy.metrics.networks.mobile import mobilenet_v2
from understudy.metrics.networks.plain import convnet, small_cnn, two_layer, vgg11
from understudy.metrics.networks.residual import resnet9, resnet50, wide_resnet

__all__ = [
    "SMALLEST_SIDE",
    "convnet",
    "mobilenet_v2",
    "resnet9",
    "resnet50",
    "small_cnn",
    "two_layer",
    "vgg11",
    "wide_resnet",
]

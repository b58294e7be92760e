"""The networks that a release is judged by. Plain torch; every one takes and gives tensors.

All of them are built with fresh random weights from torch's default generator: seed it, or fork
it, around the call (``networks.classifier_training`` does).
"""

from understudy.metrics.networks.architectures import (
    SMALLEST_SIDE,
    convnet,
    instance_resnet,
    mobilenet_v2,
    resnet9,
    resnet50,
    small_cnn,
    two_layer,
    vgg11,
    wide_resnet,
)

__all__ = [
    "SMALLEST_SIDE",
    "convnet",
    "instance_resnet",
    "mobilenet_v2",
    "resnet9",
    "resnet50",
    "small_cnn",
    "two_layer",
    "vgg11",
    "wide_resnet",
]

"""Images of one subject for the tiny pipelines of `diffusion`."""

import numpy as np


def subject(count: int = 4, height: int = 32, width: int = 32) -> np.ndarray:
    """A yellow square with a black spot, at another place in each image, on red."""
    images = np.zeros((count, height, width, 3), np.uint8)
    images[..., 0] = 190
    for index, image in enumerate(images):
        top, left = 2 + 2 * index, 3 + index
        image[top : top + 12, left : left + 12] = (240, 220, 30)
        image[top + 4 : top + 8, left + 4 : left + 8] = 0
    return images

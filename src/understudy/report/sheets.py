"""Contact sheets: many small images in one PNG."""

from __future__ import annotations

import io
import math

import numpy as np
from PIL import Image

from understudy.core.types import Images

MARGIN = 2


def contact_sheet(images: Images, columns: int | None = None) -> bytes:
    """The images in rows, with a thin transparent margin between them.

    Args:
        images: (n, height, width, channels) uint8, n of 1 or more, channels 1 or 3.
        columns: Images in a row; the least square that holds them all by default.

    Returns:
        A PNG file.
    """
    n, height, width, _ = images.shape
    columns = columns or math.ceil(math.sqrt(n))
    rows = math.ceil(n / columns)
    sheet = np.zeros(
        (rows * (height + MARGIN) - MARGIN, columns * (width + MARGIN) - MARGIN, 4), dtype=np.uint8
    )
    for index, image in enumerate(images):
        top = index // columns * (height + MARGIN)
        left = index % columns * (width + MARGIN)
        sheet[top : top + height, left : left + width, :3] = image
        sheet[top : top + height, left : left + width, 3] = 255
    file = io.BytesIO()
    Image.fromarray(sheet).save(file, format="PNG", optimize=True)
    return file.getvalue()

"""Images from text, and variations of images, by a server."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from PIL import Image

from understudy.backends.arrays import (
    check_prompts,
    check_side_text,
    check_strength,
    require_images,
    sizes_of,
)
from understudy.backends.hosted.hosted_client import (
    HostedClient,
    HostedOptions,
    HostedRequest,
    RefusedReply,
    UnusableReply,
)
from understudy.backends.hosted.hosted_text import (
    HostedCaptioner,
    HostedCaptionerOptions,
    HostedModel,
    first_of,
    png_images,
)
from understudy.backends.plugin import read_options
from understudy.core.errors import UnsupportedTask
from understudy.core.ports import Generator
from understudy.core.remote_models import RemoteCalls
from understudy.core.types import Images, Shape, Texts

_FORMATS = ("PNG", "JPEG", "WEBP")  # that servers draw; PIL knows some that run other programs
_OPTIONAL = frozenset({"seed", "response_format"})
_EDIT = (
    "{prompt}. Keep the composition of this image and change about {share} per cent of what it "
    "shows."
)


@dataclass(frozen=True, slots=True)
class HostedGeneratorOptions(HostedOptions):
    """Options of a generator, besides those of `HostedOptions`.

    Attributes:
        size: Height x width of the images, one that the server draws.
        captioner: A chat model of the same server that sees: images are varied by their captions,
            which are drawn again; None: they are edited.
    """

    size: str = "1024x1024"
    captioner: str | None = None

    def __post_init__(self) -> None:
        HostedOptions.__post_init__(self)
        check_side_text(self.size)


class HostedGenerator(HostedModel):
    """A model that draws images from text and edits them."""

    tasks = frozenset({"text", "variation"})

    def __init__(self, model: str, options: HostedGeneratorOptions) -> None:
        super().__init__(HostedClient(model, options), (0, 0))
        height, width = (sizes_of(options.size, "size") * 2)[:2]
        self.shape: Shape = (height, width, 3)
        self._size = f"{width}x{height}"  # as the API writes it
        self._captioner: HostedCaptioner | None = None
        if options.captioner is not None:
            shared = {key: getattr(options, key) for key in HostedOptions.__dataclass_fields__}
            self._captioner = HostedCaptioner(options.captioner, HostedCaptionerOptions(**shared))

    def connect(self, calls: RemoteCalls) -> None:
        """As `RemoteModel.connect`."""
        super().connect(calls)
        if self._captioner is not None:
            self._captioner.connect(calls)

    def generate(self, prompts: Texts, *, seed: int = 0) -> Images:
        """One image a prompt: (n, height, width, 3) uint8.

        Servers that take no seed draw each row once, whatever they would draw another time: the
        answer is kept by its prompt, seed and row.
        """
        check_prompts(prompts, None, self.name)
        items = [(prompt, _row_seed(seed, row, "text"), None) for row, prompt in enumerate(prompts)]
        return self._pixels(self.client.each(self._draw, items))

    def vary(self, images: Images, prompts: Texts, *, strength: float, seed: int = 0) -> Images:
        """Edits of public images (or images of their captions) with a prompt each.

        The API knows no strength: the words say how much is to change.
        """
        require_images(images, self.shape, self.name)
        check_prompts(prompts, len(images), self.name)
        check_strength(strength, self.name)
        if strength == 0:
            return images.copy()
        if strength == 1:
            return self.generate(prompts, seed=seed)
        if self._captioner is not None:
            captions = self._captioner.caption_public(images)
            texts = [f"{prompt}: {text}" for prompt, text in zip(prompts, captions, strict=True)]
            return self.generate(texts, seed=seed)
        share = max(1, round(100 * strength))
        items = [
            (_EDIT.format(prompt=prompt, share=share), _row_seed(seed, row, "edit"), file)
            for row, (file, prompt) in enumerate(zip(png_images(images), prompts, strict=True))
        ]
        return self._pixels(self.client.each(self._draw, items))

    def inpaint(self, *images: Any, **options: Any) -> NoReturn:
        """Not offered."""
        raise UnsupportedTask(self.name, "inpainting", self.tasks)

    def control(self, kind: str, *images: Any, **options: Any) -> NoReturn:
        """Not offered."""
        raise UnsupportedTask(self.name, f"control:{kind}", self.tasks)

    def _draw(self, item: tuple[str, int, bytes | None]) -> bytes:
        """An image of a prompt and a seed, or an edit of an image by them."""
        prompt, seed, image = item
        body = {
            "prompt": prompt or "an image",
            "n": 1,  # of more, some servers give fewer
            "size": self._size,
            "response_format": "b64_json",
            "seed": seed,
        }
        route = "images/generations" if image is None else "images/edits"
        try:
            return self.client.ask(HostedRequest(route, body, _OPTIONAL, image), self._read)
        except RefusedReply as error:
            raise self.client.failed(
                f"refuses to draw {(prompt or 'an image')[:80]!r} ({error}): no image stands for "
                "it. Take another prompt or model"
            ) from ConnectionError(str(error))

    def _read(self, reply: Any) -> bytes:
        """The bytes of an image of the size that was asked for."""
        first = first_of(reply, "data")
        if first.get("url") and not first.get("b64_json"):
            raise self.client.failed(
                "gives the address of an image instead of the image, which is not fetched: set it "
                "to answer with b64_json"
            )
        try:
            file = base64.b64decode(first["b64_json"], validate=True)
            with Image.open(io.BytesIO(file), formats=_FORMATS) as image:
                width, height = image.size
                if (height, width) == self.shape[:2]:
                    image.load()
        except (
            KeyError,
            TypeError,
            ValueError,
            SyntaxError,
            OSError,
            Image.DecompressionBombError,
        ) as error:
            raise UnusableReply("no image") from error
        if (height, width) != self.shape[:2]:
            raise self.client.failed(
                f"gives images of {height}x{width} (height x width), not "
                f"{self.shape[0]}x{self.shape[1]}: ?size={height}x{width}"
            )
        return file

    def _pixels(self, files: list[bytes]) -> Images:
        images = np.empty((len(files), *self.shape), dtype=np.uint8)
        for row, file in enumerate(files):
            with Image.open(io.BytesIO(file), formats=_FORMATS) as image:
                images[row] = np.asarray(image.convert("RGB"))
        return images


def _row_seed(seed: int, row: int, task: str) -> int:
    """A seed of 31 bits for each row of a call."""
    entropy = [seed % 2**64, row, int.from_bytes(task.encode(), "little")]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)


def hosted_generator(rest: str, options: Mapping[str, Any]) -> Generator:
    """A model that draws images."""
    read = read_options(options, HostedGeneratorOptions, name=f"openai:{rest}")
    return HostedGenerator(rest, read)

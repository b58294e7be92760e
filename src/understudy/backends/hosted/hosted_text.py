"""Captions of images, captions from nothing, and embeddings, by a server."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from PIL import Image

from understudy.backends.arrays import (
    BELOW_ONE,
    check_prompts,
    require_any_images,
    require_images,
    with_channels,
)
from understudy.backends.chat.answers import MalformedAnswer, read_answer
from understudy.backends.chat.chat_writer import ChatWriter, SamplingOptions, whole_lines
from understudy.backends.chat.prompt_templates import Messages, load_prompts
from understudy.backends.hosted.hosted_client import (
    HostedClient,
    HostedOptions,
    HostedRequest,
    RefusedReply,
    RejectedRequest,
    UnusableReply,
)
from understudy.backends.plugin import PositiveCount, read_options
from understudy.core.errors import BackendError, UnsupportedTask
from understudy.core.option import Option
from understudy.core.ports import Captioner, Encoder, Writer
from understudy.core.remote_models import RemoteCalls
from understudy.core.types import Embeddings, Images, Shape, Texts

CHAT = "chat/completions"
CAPTION_PROMPT = "Describe this image in one sentence."

_CAPTION_TOKENS, _WRITER_TOKENS, _TEXT_TOKENS = (800, 40), (200, 40), (40, 0)
"""Read and written in a usual request; an image counts a few hundred tokens, each server its own
number."""

_CHAT_OPTIONAL = frozenset({"max_tokens", "temperature", "top_p", "seed"})


@dataclass(frozen=True, slots=True)
class HostedCaptionerOptions(HostedOptions):
    """Options of a captioner, besides those of `HostedOptions`.

    Attributes:
        prompt: What is asked about each image.
        tokens: Most tokens of an answer.
    """

    prompt: str = CAPTION_PROMPT
    tokens: PositiveCount = 120


@dataclass(frozen=True, slots=True)
class HostedWriterOptions(SamplingOptions, HostedOptions):
    """Options of a chat model that writes captions."""


@dataclass(frozen=True, slots=True)
class HostedEncoderOptions(HostedOptions):
    """Options of an encoder, besides those of `HostedOptions`.

    Attributes:
        dim: Length of an embedding; None: the server is asked once.
        images: Whether the server embeds images (vLLM does); None: it is asked once.
    """

    dim: Annotated[int | None, Option("", least=1)] = None
    images: bool | None = None


class HostedModel:
    """What all models of a server have in common: `understudy.core.remote_models.RemoteModel`."""

    takes_images = False

    def __init__(self, client: HostedClient, usual_tokens: tuple[int, int]) -> None:
        self.name, self.host = client.name, client.address.host
        self.loopback, self.prices = client.address.loopback, client.prices
        self.licence = f"unknown (run by the server {client.address.host})"
        self.usual_tokens: tuple[int, int] = usual_tokens
        self.client = client
        self._permitted = client.address.loopback

    def connect(self, calls: RemoteCalls) -> None:
        """As `RemoteModel.connect`."""
        calls.include(self.client.calls)
        self.client.calls = calls

    def permit(self, host: str) -> None:
        """As `RemoteModel.permit`."""
        self._permitted = self._permitted or host == self.host

    def require_permission(self) -> None:
        """Refuse to send what may be private, or come of it, to another machine.

        Raises:
            BackendError: The server is none of this machine, and nobody has permitted it.
        """
        if not self._permitted:
            raise BackendError(
                f"{self.name} would send images that may be private, or what is said of them, to "
                f"{self.host}, which is not this machine. None was sent and nothing was spent. "
                "Take a server on this machine (http://127.0.0.1:PORT/v1)"
            )


class HostedCaptioner(HostedModel):
    """A chat model that sees."""

    takes_images = True

    def __init__(self, model: str, options: HostedCaptionerOptions) -> None:
        client = HostedClient(model, options, usual_tokens=_CAPTION_TOKENS)
        super().__init__(client, _CAPTION_TOKENS)
        self._options = options

    def caption(self, images: Images) -> list[str]:
        """One caption an image.

        Raises:
            BackendError: Not permitted, or the server says nothing of an image, or refuses to.
        """
        require_any_images(images, self.name)
        self.require_permission()
        return self.caption_public(images)

    def caption_public(self, images: Images) -> list[str]:
        """The same, of images that are public: they may go to any server."""
        answers = self.client.each(self._caption, png_images(images))
        return [answer.decode() for answer in answers]

    def _caption(self, image: bytes) -> bytes:
        body = {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": self._options.prompt}, image_part(image)],
                }
            ],
            "max_tokens": self._options.tokens,
            "temperature": 0,
        }
        try:
            return self.client.ask(HostedRequest(CHAT, body, _CHAT_OPTIONAL), self._read)
        except RefusedReply as error:
            raise self.client.failed(
                f"refuses to describe an image ({error}): no caption stands for it. Take another "
                "model or prompt, or leave such images out"
            ) from ConnectionError(str(error))

    def _read(self, reply: Any) -> bytes:
        text, finished = answer_of(reply)
        if not text:
            raise UnusableReply("an empty answer")
        if not finished:
            raise UnusableReply(f"an answer cut off at {self._options.tokens} tokens (?tokens=)")
        try:
            return read_answer(" ".join(text.split()), (1, self._options.tokens)).encode()
        except MalformedAnswer as error:
            if str(error) == "refusal":
                raise RefusedReply(text[:200]) from error
            raise UnusableReply(f"an answer that is no caption ({error}): {text[:80]!r}") from error


class EmptyReply(ValueError):
    """An answer without a word: it is not kept, so a resumed run asks again."""


class HostedChat:
    """Conversations and a seed each to one answer each; see `chat_writer.Chat`."""

    def __init__(self, client: HostedClient, options: HostedWriterOptions) -> None:
        self._client, self._options = client, options

    def __call__(self, conversations: Sequence[Messages], seeds: Sequence[int]) -> list[str]:
        """The answers; a refusal as it is, for it is no caption and will be counted as none."""
        questions = [json.dumps([c, s]) for c, s in zip(conversations, seeds, strict=True)]
        return [answer.decode() for answer in self._client.each(self._answer, questions)]

    def _answer(self, question: str) -> bytes:
        messages, seed = json.loads(question)
        body = {
            "messages": messages,
            "seed": seed,
            "max_tokens": self._options.tokens,
            "temperature": self._options.temperature,
            "top_p": self._options.top_p,
        }
        try:
            return self._client.ask(HostedRequest(CHAT, body, _CHAT_OPTIONAL), self._read)
        except RefusedReply:
            return b"I'm sorry, no."  # the writer knows what that is, and asks anew
        except EmptyReply:
            return b""

    def _read(self, reply: Any) -> bytes:
        text, finished = answer_of(reply)
        if not text:
            raise EmptyReply
        return (text if finished else whole_lines(text)).encode()


class HostedWriter(HostedModel, ChatWriter):
    """A chat model that writes captions."""

    def __init__(self, model: str, options: HostedWriterOptions) -> None:
        client = HostedClient(model, options, usual_tokens=_WRITER_TOKENS)
        HostedModel.__init__(self, client, _WRITER_TOKENS)
        ChatWriter.__init__(
            self,
            HostedChat(client, options),
            load_prompts(options.prompts),
            name=self.name,
            licence=self.licence,
            tries=options.tries,
            variation=options.variation,
        )

    def vary(self, texts: Texts, *, degree: float = 0.5, seed: int = 0) -> list[str]:
        """As `ChatWriter.vary`; captions that stay as they were are counted, and said.

        Raises:
            BackendError: Every answer about half of the texts or more is refused or malformed.
        """
        before = self.unchanged
        variations = super().vary(texts, degree=degree, seed=seed)
        unchanged = self.unchanged - before
        if 2 * unchanged >= max(len(texts), 4):
            faults = ", ".join(f"{number} {why}" for why, number in self.faults.most_common())
            raise self.client.failed(
                f"gave no variation of {unchanged} of {len(texts)} captions (in all {faults}): "
                "take another model or other prompts"
            )
        self.client.calls.unchanged += unchanged
        return variations

    def _ask(self, *question: Any) -> tuple[dict[int, str], dict[int, str]]:
        """As `ChatWriter._ask`; the last malformed answer about a text is not kept."""
        texts, malformed = super()._ask(*question)
        for answer in malformed.values():
            self.client.calls.forget(answer.encode())
        return texts, malformed


class HostedEncoder(HostedModel):
    """Embeddings of texts, and of images where the server has them, of unit norm."""

    norm_bound: float | None = 1.0
    ordered = False

    def __init__(self, model: str, shape: Shape, options: HostedEncoderOptions) -> None:
        client = HostedClient(model, options, usual_tokens=_TEXT_TOKENS)
        super().__init__(client, _TEXT_TOKENS)
        self._shape = shape
        self.dim = options.dim or 0
        if options.dim is None:
            self.dim = len(np.frombuffer(self._embed_text("a photo"), dtype=np.float32))
        self.takes_images = self._sees() if options.images is None else options.images

    def _sees(self) -> bool:
        """Whether two public images have embeddings, and not the same one."""
        images = np.zeros((2, 32, 32, 3), dtype=np.uint8)
        images[1] = 255
        try:
            black, white = (self._embed_image(image) for image in png_images(images))
        except RejectedRequest:
            return False
        return black != white

    def encode(self, images: Images) -> Embeddings:
        """(n, height, width, channels) uint8 of the shape it was loaded for: (n, d) float32.

        Raises:
            UnsupportedTask: The server embeds texts only.
            BackendError: Not permitted, or no embedding of the right length.
        """
        require_images(images, self._shape, self.name)
        if not self.takes_images:
            raise UnsupportedTask(self.name, "embeddings of images", ["embeddings of texts"])
        self.require_permission()
        return self._rows(self.client.each(self._embed_image, png_images(images)))

    def encode_text(self, texts: Texts) -> Embeddings:
        """N texts: (n, d) float32 of unit norm. What is said of private images is private too."""
        check_prompts(texts, None, self.name)
        self.require_permission()
        return self._rows(self.client.each(self._embed_text, list(texts)))

    def _rows(self, answers: list[bytes]) -> Embeddings:
        rows = np.frombuffer(b"".join(answers), dtype=np.float32)
        return rows.reshape(len(answers), self.dim).copy()

    def _embed_text(self, text: str) -> bytes:
        return self._embed({"input": text or " "})

    def _embed_image(self, image: bytes) -> bytes:
        """By the form of vLLM: a conversation in the place of the input."""
        return self._embed({"messages": [{"role": "user", "content": [image_part(image)]}]})

    def _embed(self, body: dict[str, Any]) -> bytes:
        request = HostedRequest("embeddings", {**body, "encoding_format": "float"})
        return self.client.ask(request, self._read)

    def _read(self, reply: Any) -> bytes:
        """A row of unit norm, as its bytes."""
        numbers = first_of(reply, "data").get("embedding")
        try:
            if isinstance(numbers, str):  # base64, as some servers answer whatever they are asked
                numbers = np.frombuffer(base64.b64decode(numbers, validate=True), dtype="<f4")
            # Both forms of an answer give the same bits.
            row = np.asarray(np.asarray(numbers, dtype=np.float32), dtype=np.float64)
        except (TypeError, ValueError):
            raise UnusableReply("no embedding") from None
        if row.ndim != 1 or not len(row):
            raise UnusableReply("no embedding")
        if self.dim and len(row) != self.dim:
            raise UnusableReply(f"an embedding of {len(row)} numbers instead of {self.dim}")
        norm = float(np.linalg.norm(row))
        if not np.isfinite(norm) or norm == 0:
            raise UnusableReply("an embedding that is zero or not finite")
        return (row / norm * BELOW_ONE).astype(np.float32).tobytes()


def png_images(images: Images) -> list[bytes]:
    """Each of (n, height, width, 1 or 3) uint8 as the bytes of a PNG in colour."""
    files = []
    for image in with_channels(images, 3):
        file = io.BytesIO()
        Image.fromarray(image).save(file, "PNG")
        files.append(file.getvalue())
    return files


def image_part(image: bytes) -> dict[str, Any]:
    """An image in a conversation."""
    url = f"data:image/png;base64,{base64.b64encode(image).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def answer_of(reply: Any) -> tuple[str, bool]:
    """What a chat model said, and whether it came to its end.

    Raises:
        RefusedReply: It says that it refuses, or a filter does.
        UnusableReply: It is no reply of a chat model.
    """
    choice = first_of(reply, "choices")
    message = choice.get("message")
    if not isinstance(message, dict):
        raise UnusableReply("no answer")
    refusal, content = message.get("refusal"), message.get("content")
    if refusal or choice.get("finish_reason") == "content_filter":
        raise RefusedReply(str(refusal or "the host's filter")[:200])
    if not isinstance(content, str | None):
        raise UnusableReply("an answer that is no text")
    # Halves of a character are none: no text of them can be written.
    text = (content or "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.strip(), choice.get("finish_reason") != "length"


def first_of(reply: Any, key: str) -> dict[str, Any]:
    """The first object of a list in a reply; empty where it has none."""
    values = reply.get(key) if isinstance(reply, dict) else None
    first = values[0] if isinstance(values, list) and values else None
    return first if isinstance(first, dict) else {}


def hosted_captioner(rest: str, options: Mapping[str, Any]) -> Captioner:
    """A chat model that describes images."""
    return HostedCaptioner(
        rest, read_options(options, HostedCaptionerOptions, name=f"openai:{rest}")
    )


def hosted_writer(rest: str, options: Mapping[str, Any]) -> Writer:
    """A chat model that writes captions and varies them."""
    return HostedWriter(rest, read_options(options, HostedWriterOptions, name=f"openai:{rest}"))


def hosted_encoder(rest: str, shape: Shape, options: Mapping[str, Any]) -> Encoder:
    """An embedding model, for images of a shape and for texts."""
    read = read_options(options, HostedEncoderOptions, name=f"openai:{rest}")
    return HostedEncoder(rest, shape, read)

"""``openai:MODEL``: a model behind an OpenAI-compatible API (OpenAI, vLLM, Ollama, LocalAI, ...).

    openai:gpt-4o-mini                                 OPENAI_BASE_URL and OPENAI_API_KEY
    openai:llava?base_url=http://127.0.0.1:11434/v1    a server on this machine
    openai:flux?size=256x256&captioner=llava           varied by caption and generation

The role decides what is asked of it: captions of images, captions from nothing and variations of
them, embeddings, images. docs/hosted-models.md says which server serves which.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from understudy.backends.plugin import BackendInfo, Kind, installed
from understudy.core.errors import BackendError, packages_for
from understudy.core.ports import Encoder
from understudy.core.types import Shape

_EXTRA = "openai"

_LOADERS = {
    "encoder": "hosted_text:hosted_encoder",
    "captioner": "hosted_text:hosted_captioner",
    "writer": "hosted_text:hosted_writer",
    "generator": "hosted_images:hosted_generator",
}
"""The function that loads each kind of model; its module needs the extra."""


class HostedBackend:
    """The family ``openai``."""

    def models(self) -> list[BackendInfo]:
        """One line: what it serves is decided by the server."""
        what = "a captioner, writer, encoder or generator of an OpenAI-compatible server"
        there = installed("openai")
        return [BackendInfo("openai:MODEL", "all kinds", what, _EXTRA, there, "the server's")]

    def encoder(self, rest: str, shape: Shape, **options: Any) -> Encoder:
        """Embeddings of texts, and of images where the server has them."""
        return _load("encoder", rest)(rest, shape, options)  # type: ignore[no-any-return]

    def model(self, kind: Kind, rest: str, **options: Any) -> object:
        """A captioner, writer or generator."""
        if kind not in _LOADERS:
            raise BackendError(f"openai: has no {kind}; it has {', '.join(_LOADERS)}")
        return _load(kind, rest)(rest, options)


def _load(kind: str, rest: str) -> Any:
    module, _, function = _LOADERS[kind].partition(":")
    with packages_for(f"openai:{rest}", _EXTRA):
        return getattr(import_module(f"understudy.backends.hosted.{module}"), function)


backend = HostedBackend()

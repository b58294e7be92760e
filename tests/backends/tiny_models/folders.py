"""Tiny models by name, each built once a session in the hub's format."""

import re
from pathlib import Path
from typing import Any

import pytest

ENCODERS = ("clip", "siglip", "dino", "tower", "pipeline_with_tower")

_HOLE = re.compile(r"\{hub\}/(\w+)")


def located(name: str, hub: Path) -> str:
    """A name such as ``hf:{hub}/clip?batch=4`` with that model built, and its folder in it."""
    for wanted in _HOLE.findall(name):
        built(wanted, hub)
    return name.replace("{hub}", str(hub))


def built(wanted: str, hub: Path) -> Path:
    """The folder of one of the models of `clip` or `vision`."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tests.backends.tiny_models import clip
    from transformers.utils import logging

    if not (hub / wanted).exists():
        build = getattr(clip, wanted, None) if wanted in ENCODERS else None
        if build is None:
            from tests.backends.tiny_models import vision

            build = getattr(vision, wanted)
        level = logging.get_verbosity()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        torch.manual_seed(0)
        try:
            build(hub / wanted)
        finally:
            logging.set_verbosity(level)
            logging.enable_progress_bar()
    return hub / wanted


def network(folder: Path, kind: str = "AutoModel") -> Any:
    """The library's own network of a folder, ready to run."""
    import transformers

    from understudy.backends.hub.pretrained import quiet

    with quiet():
        return getattr(transformers, kind).from_pretrained(folder).eval()

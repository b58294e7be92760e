"""Prompts for chat models that write captions: templates to edit, and texts with blanks to fill.

A file of prompts is YAML with Jinja templates inside; those of this package lie in ``prompts/``.

    about: what it is for
    words: [6, 40]          fewest and most words of a caption
    keywords: [...]         one is drawn for each caption written from nothing: ``{{ keyword }}``
    styles: [...]           one is drawn for each caption: ``{{ style }}``
    write:                  RANDOM_API: ``{{ label }}``, ``{{ keyword }}``, ``{{ style }}``,
      system: ...           ``{{ words }}`` (how many words to aim at)
      user: ...
    rephrase:               VARIATION_API: ``{{ text }}``, ``{{ share }}`` (per cent that may
      system: ...           change), ``{{ style }}``, ``{{ words }}``
      user: ...
    blanks:                 VARIATION_API: ``{{ text }}`` with ``_`` for each word taken out,
      system: ...           ``{{ style }}``, ``{{ words }}`` (how many words the text has)
      user: ...

``rephrase`` or ``blanks`` may be left out, but not both. Nothing here needs PyTorch or a network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.meta import find_undeclared_variables
from jinja2.sandbox import ImmutableSandboxedEnvironment

from understudy.backends.yaml_files import from_yaml
from understudy.core.errors import BackendError

Messages = list[dict[str, str]]
"""One conversation: ``{"role": "system" or "user" or "assistant", "content": ...}`` each."""

BLANK = "_"
DEFAULT = "default"

_WORD = re.compile(r"\w+(?:['\u2019\-]\w+)*")
_PARTS = {
    "write": frozenset({"label", "keyword", "style", "words"}),
    "rephrase": frozenset({"text", "share", "style", "words"}),
    "blanks": frozenset({"text", "style", "words"}),
}
_PLAIN = ("about", "words", "keywords", "styles")
# Whoever edits prompts may not be who runs them, so a template can reach nothing but its variables.
_JINJA = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)


@dataclass(frozen=True, slots=True)
class RequestTemplates:
    """The templates of one kind of request."""

    user: Template
    system: Template | None
    uses: frozenset[str]

    def render(self, **values: object) -> Messages:
        """The conversation with these values put in."""
        messages: Messages = []
        for role, template in (("system", self.system), ("user", self.user)):
            if template is not None:
                try:
                    content = template.render(**values).strip()
                except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
                    raise BackendError(f"the prompts cannot be filled in: {error}") from error
                messages.append({"role": role, "content": content})
        return messages


@dataclass(frozen=True, slots=True)
class WriterPrompts:
    """Everything a chat model is told, and how long its captions may be.

    Attributes:
        parts: ``"write"``, and ``"rephrase"`` or ``"blanks"`` or both.
        words: Fewest and most words of a caption.
        keywords: One is drawn for each caption written from nothing.
        styles: One is drawn for each caption.
    """

    name: str
    about: str
    parts: Mapping[str, RequestTemplates]
    words: tuple[int, int] = (4, 60)
    keywords: tuple[str, ...] = ("",)
    styles: tuple[str, ...] = ("",)

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways of varying a text it has templates for."""
        return tuple(part for part in ("rephrase", "blanks") if part in self.parts)

    def write(self, label: str | None, rng: np.random.Generator) -> Messages:
        """Ask for a caption from nothing."""
        part = self.parts["write"]
        if label is not None and "label" not in part.uses:
            raise BackendError(
                f"the prompts {self.name} cannot be asked for a class ({label!r}): put "
                "{{ label }} into their write templates, or choose others"
            )
        # Within the limits, but not so near that a word more breaks them.
        low, high = self.words
        middle = (high - low) // 4
        return part.render(
            label=label,
            keyword=_draw(self.keywords, rng),
            style=_draw(self.styles, rng),
            words=int(rng.integers(low + middle, high - middle + 1)),
        )

    def vary(self, text: str, degree: float, way: str, rng: np.random.Generator) -> Messages:
        """Ask for a variation of a text.

        ``way`` is ``"rephrase"`` or ``"blanks"``, ``degree`` in (0, 1] how much may change.
        """
        style, words = _draw(self.styles, rng), len(text.split())
        if way == "blanks":
            text = blanked(text, degree, rng)
            return self.parts["blanks"].render(text=text, style=style, words=words)
        share = max(1, round(100 * degree))
        return self.parts["rephrase"].render(text=text, share=share, style=style, words=words)


def blanked(text: str, share: float, rng: np.random.Generator) -> str:
    """The text with a share of its words (at least one) replaced by ``_``; punctuation stays."""
    matches = list(_WORD.finditer(text))
    count = min(len(matches), max(1, round(share * len(matches))))
    for index in sorted(rng.choice(len(matches), count, replace=False), reverse=True):
        text = text[: matches[index].start()] + BLANK + text[matches[index].end() :]
    return text


def prompt_names() -> list[str]:
    """The prompts that come with this package."""
    return sorted(
        entry.name.removesuffix(".yaml")
        for entry in files("understudy.backends.chat").joinpath("prompts").iterdir()
        if entry.name.endswith(".yaml")
    )


def load_prompts(name: str) -> WriterPrompts:
    """Prompts of this package by name, or of a .yaml file."""
    if name in prompt_names():
        text = (
            files("understudy.backends.chat").joinpath("prompts", f"{name}.yaml").read_text("utf-8")
        )
    elif name.endswith((".yaml", ".yml")):
        try:
            text = Path(name).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BackendError(f"cannot read the prompts {name}: {error}") from error
    else:
        raise BackendError(
            f"there are no prompts {name!r}. There are {', '.join(prompt_names())}; "
            "or give a .yaml file"
        )
    try:
        return _read(name, from_yaml(text))
    except (TemplateError, RecursionError) as error:
        raise BackendError(f"cannot read the prompts {name}: {error}") from error
    except ValueError as error:
        raise BackendError(f"the prompts {name}: {error}") from error


def _read(name: str, document: Any) -> WriterPrompts:
    if not isinstance(document, dict):
        raise ValueError(f"not a mapping, but {type(document).__name__}")
    unknown = sorted(str(key) for key in document if key not in (*_PARTS, *_PLAIN))
    if unknown:
        entries = ", ".join((*_PLAIN, *_PARTS))
        raise ValueError(f"unknown entry {', '.join(unknown)}; there are {entries}")
    parts = {key: _part(key, document[key]) for key in _PARTS if key in document}
    if "write" not in parts or len(parts) < 2:
        raise ValueError("they need write, and rephrase or blanks")
    words = document.get("words", [4, 60])
    if not (
        isinstance(words, list)
        and len(words) == 2
        and all(type(number) is int for number in words)
        and 1 <= words[0] <= words[1]
    ):
        raise ValueError(f"words is [fewest, most], found {words!r}")
    return WriterPrompts(
        name=name,
        about=str(document.get("about", "")).strip(),
        parts=parts,
        words=(words[0], words[1]),
        keywords=_strings(document, "keywords"),
        styles=_strings(document, "styles"),
    )


def _part(key: str, document: Any) -> RequestTemplates:
    if isinstance(document, str):
        document = {"user": document}
    if not isinstance(document, dict) or set(document) - {"system", "user"}:
        raise ValueError(f"{key} is a template, or a mapping of system and user")
    if not isinstance(document.get("user"), str) or not document["user"].strip():
        raise ValueError(f"{key} has no template under user")
    texts = {role: str(document[role]) for role in ("system", "user") if document.get(role)}
    uses = frozenset(
        variable
        for text in texts.values()
        for variable in find_undeclared_variables(_JINJA.parse(text))
    )
    if not uses <= _PARTS[key]:
        unknown, parts = ", ".join(sorted(uses - _PARTS[key])), ", ".join(sorted(_PARTS[key]))
        raise ValueError(f"{key} mentions {unknown}; it may mention {parts}")
    if key != "write" and "text" not in uses:
        raise ValueError(f"{key} must mention {{{{ text }}}}, the text to vary")
    system = _JINJA.from_string(texts["system"]) if "system" in texts else None
    return RequestTemplates(_JINJA.from_string(texts["user"]), system, uses)


def _strings(document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    strings = document.get(key, [])
    if not isinstance(strings, list) or not all(isinstance(entry, str) for entry in strings):
        raise ValueError(f"{key} is a list of texts, found {strings!r}")
    return tuple(strings) or ("",)


def _draw(choices: tuple[str, ...], rng: np.random.Generator) -> str:
    return choices[int(rng.integers(len(choices)))]

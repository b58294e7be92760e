"""The templates, and how text from outside is put into Markdown and HTML without doing harm."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape

from understudy.report import meaning
from understudy.report.readable_names import readable

if TYPE_CHECKING:
    from jinja2 import Environment

# What has a meaning anywhere in a line; an underscore inside a word has none.
_MARKDOWN = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])")

_CODE = re.compile(r"`([^`]+)`")


def markdown(value: object) -> str:
    """Text that Markdown, anywhere but at the start of a line, shows as it is."""
    text = "".join(c if c.isprintable() else " " for c in str(value))
    text = html.escape(" ".join(text.split()), quote=False)
    return _MARKDOWN.sub(r"\\\g<0>", text)


def value(item: Any) -> str:
    """A parameter or a fact as short text: numbers and words bare, lists and maps in a line."""
    item = item.item() if isinstance(item, np.generic) else item
    if isinstance(item, bool) or item is None:
        return {True: "yes", False: "no", None: "none"}[item]
    if isinstance(item, int):
        return f"{item:,}"
    if isinstance(item, float):
        return meaning.number(item) if math.isfinite(item) else str(item)
    if isinstance(item, Mapping):
        return "; ".join(f"{name}: {value(part)}" for name, part in item.items())
    if isinstance(item, list | tuple):
        return ", ".join(value(part) for part in item)
    return str(item)


def coded(text: str) -> Markup:
    """HTML of a sentence in which commands stand between backticks."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # escaped before


def rendered(template: str, **values: Any) -> str:
    """A template of this package with its values."""
    return environment().get_template(template).render(**values)


@cache
def environment() -> Environment:
    """Jinja2 with this package's templates; ``*.html`` escapes everything, the rest uses ``md``."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # which readers do without

    jinja = Environment(
        loader=PackageLoader("understudy.report"),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    jinja.filters |= {
        "md": markdown,
        "coded": coded,
        "stated": meaning.stated,
        "number": meaning.number,
        "percent": meaning.percent,
        "released": meaning.released,
        "value": value,
        "named": readable,
    }
    return jinja

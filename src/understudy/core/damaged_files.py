"""What readers of files raise where a file is damaged, or is no such file."""

from __future__ import annotations

import json
import lzma
import math
import zipfile
import zlib
from tokenize import TokenError
from typing import Any

ZIP_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    RuntimeError,
)
"""What ``zipfile`` raises on archives that are damaged, or say that they are encrypted."""

NO_LITERAL = (SyntaxError, TokenError, RecursionError)
"""What NumPy's reader of headers, a parser of Python's literals, raises besides."""

NO_HEADER = (*NO_LITERAL, MemoryError)
"""The same of a header alone, which no sound one makes large."""


_MOST_VALUES = 1_000_000  # of a YAML text, each as often as aliases repeat it


def from_json(text: str | bytes) -> Any:
    """The values of a JSON text.

    Raises:
        ValueError: It is none, or nests deeper than Python's reader goes.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it nests too deep") from error


def from_yaml(text: str) -> Any:
    """The values of a YAML text, of which no tag runs code.

    Raises:
        ValueError: It is none, nests too deep, says one thing twice, of which the last would count
            without a word, or repeats itself without end by its aliases.
    """
    import yaml  # which most commands do without

    class Loader(yaml.SafeLoader):
        def construct_document(self, node: yaml.Node) -> Any:
            if _value_count(node, {}) > _MOST_VALUES:
                raise ValueError(f"its aliases (*) make over {_MOST_VALUES:,} values of it")
            return super().construct_document(node)

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
            names = [str(key.value).replace("-", "_") for key, _ in node.value]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                line = node.start_mark.line + 1
                raise ValueError(f"{twice[0]} comes twice in what begins in line {line}")
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"not a YAML file: {error}") from error
    except RecursionError as error:
        raise ValueError("not a YAML file: it nests too deep") from error
    except (AttributeError, KeyError) as error:  # a text that its tag does not fit
        raise ValueError(f"not a YAML file: no such value ({error})") from error


def _value_count(node: Any, counts: dict[int, float]) -> float:
    """How many values a node of YAML holds, itself included; infinite where it holds itself."""
    if id(node) not in counts:
        counts[id(node)] = math.inf
        parts = [] if isinstance(node.value, str) else node.value
        nodes = [one for part in parts for one in (part if isinstance(part, tuple) else [part])]
        counts[id(node)] = 1 + sum(_value_count(one, counts) for one in nodes)
    return counts[id(node)]

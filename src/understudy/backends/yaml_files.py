"""YAML files, which others may have written: runs, recipes, spaces of settings, facts, prompts."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

from understudy.core.errors import ConfigError

_MOST_VALUES = 1_000_000  # of a file, each as often as aliases repeat it


def read_yaml(path: Path, what: str) -> Any:
    """The content of a YAML file.

    Raises:
        ConfigError: It cannot be read, is no YAML, or says one thing twice.
    """
    try:
        return from_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the {what}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a YAML file: {error}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


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
            names = Counter(str(key.value).replace("-", "_") for key, _ in node.value)
            if twice := sorted(name for name, count in names.items() if count > 1):
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

"""YAML files: configurations, recipes and spaces of settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from understudy.core.errors import ConfigError


def read_yaml(path: Path, what: str) -> Any:
    """The content of a YAML file.

    Raises:
        ConfigError: It cannot be read, is no YAML, or says one thing twice.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """Refuses a name that comes twice, of which the last would count without a word."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
            names = [str(key.value).replace("-", "_") for key, _ in node.value]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                line = node.start_mark.line + 1
                raise ConfigError(f"{path}: {twice[0]} comes twice in what begins in line {line}")
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader)
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the {what}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not a YAML file: {error}") from error

"""YAML files: configurations, recipes and spaces of settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from understudy.core.damaged_files import from_yaml
from understudy.core.errors import ConfigError


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

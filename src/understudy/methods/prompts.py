"""Prompts from a template: a class's phrase stands where the template says ``{class}``."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.core.errors import ConfigError
from understudy.methods.base import UNLABELLED, Context

CLASS = "{class}"
"""What a template has in the place of the class."""


def prompts_of(phrases: Sequence[str], template: str) -> tuple[str, ...]:
    """The template with each class's phrase in its place."""
    return tuple(template.replace(CLASS, phrase) for phrase in phrases)


def check_template(context: Context, template: str, *, conditional: bool) -> None:
    """Refuse a template that draws all classes alike, or one that has no phrase for anything.

    Args:
        context: The classes and their phrases.
        template: The prompt.
        conditional: Whether rows keep their class.

    Raises:
        ConfigError: As said.
    """
    if context.called == UNLABELLED and CLASS in template:
        raise ConfigError(
            "this dataset has no classes, so the template has to say what its pictures show: "
            "--set 'template=a photo of a dog'"
        )
    if conditional and len(context.classes) > 1 and CLASS not in template:
        raise ConfigError(
            f"the template {template!r} draws all {len(context.classes)} classes alike: write "
            f"{CLASS} where the class's name belongs, such as 'a photo of a {CLASS}'"
        )

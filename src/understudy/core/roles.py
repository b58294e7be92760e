"""The one table of roles: every model and dataset that a method can be given, declared once.

A role is a line of `RoleNames`, which says what a user may name, and for a model a line of
`Models`, which says what is loaded. The options of the command line and of a file, the models of a
`Context`, what is loaded and every check are made from these lines; ``understudy.synthesize``
writes the options out. The ports are imported when one is asked for: the command line's help needs
none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, cast, get_type_hints

from understudy.core.option import Option, option_of

if TYPE_CHECKING:
    from understudy.core.ports import Captioner, Decoder, Denoiser, Encoder, Generator, Writer


@dataclass(frozen=True, kw_only=True)
class Role(Option):
    """What one model or dataset of a method is.

    Attributes:
        port: The name in `understudy.core.ports` of the port that it satisfies. A dataset is a
            ``Source``.
    """

    port: str


def _role(port: str, help: str) -> Role:
    return Role(help=help, port=port)


class RoleNames(TypedDict, total=False):
    """The name that a user gives for each role; ``"none"`` is none, None leaves it open."""

    encoder: Annotated[
        str | None, _role("Encoder", "Model that turns images into numbers, or auto.")
    ]
    decoder: Annotated[
        str | None, _role("Decoder", "Model that turns numbers into images, or none.")
    ]
    public: Annotated[
        str | None, _role("Source", "Public dataset that the method may learn from for free.")
    ]
    base: Annotated[str | None, _role("Source", "Public images of the same classes to start from.")]
    contrast: Annotated[
        str | None, _role("Source", "Public images of other kinds, for a test of likeness.")
    ]
    candidates: Annotated[str | None, _role("Source", "Synthetic images to select from.")]
    cluster_encoder: Annotated[str | None, _role("Encoder", "Encoder by which images are grouped.")]
    generator: Annotated[str | None, _role("Generator", "Model that draws images from text.")]
    renderer: Annotated[str | None, _role("Generator", "Model that draws the final images.")]
    writer: Annotated[str | None, _role("Writer", "Language model that writes captions.")]
    captioner: Annotated[str | None, _role("Captioner", "Model that describes images in words.")]
    denoiser: Annotated[str | None, _role("Denoiser", "Diffusion network that is trained.")]


@dataclass(frozen=True, kw_only=True)
class Models:
    """The models that are loaded for a run, by their roles; None: not given."""

    encoder: Encoder | None = None
    decoder: Decoder | None = None
    cluster_encoder: Encoder | None = None
    generator: Generator | None = None
    renderer: Generator | None = None
    writer: Writer | None = None
    captioner: Captioner | None = None
    denoiser: Denoiser | None = None


ROLES: Mapping[str, Role] = {
    name: cast(Role, option_of(hint))
    for name, hint in get_type_hints(RoleNames, include_extras=True).items()
}
"""Every role by its name, in the order in which options are listed."""

MODEL_ROLES: tuple[str, ...] = tuple(field.name for field in fields(Models))
"""The roles that are models."""


def port_of(role: str) -> type[Any]:
    """The port that a role's model or dataset satisfies."""
    port: type[Any] = getattr(import_module("understudy.core.ports"), ROLES[role].port)
    return port


def flag_of(role: str) -> str:
    """The option of a role, or of another name, on the command line."""
    return "--" + role.replace("_", "-")

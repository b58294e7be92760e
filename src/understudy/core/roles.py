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
        meaning: What it is, and what stands for it where it is left open.
    """

    port: str
    meaning: str

    @property
    def description(self) -> str:
        """What the JSON Schema says of it."""
        return self.meaning


def _role(help: str, port: str, meaning: str) -> Role:
    return Role(help=help, port=port, meaning=meaning)


class RoleNames(TypedDict, total=False):
    """The name that a user gives for each role; ``"none"`` is none, None leaves it open."""

    encoder: Annotated[
        str | None,
        _role(
            "Model that turns images into numbers, or auto.",
            "Encoder",
            "The encoder; open, or auto: chosen by the size of the images (`understudy methods`).",
        ),
    ]
    decoder: Annotated[
        str | None,
        _role(
            "Model that turns numbers into images, or none.",
            "Decoder",
            "The decoder; open: the encoder's own.",
        ),
    ]
    public: Annotated[
        str | None,
        _role(
            "Public dataset that the method may learn from for free.",
            "Source",
            "A public dataset that the method may learn from for free; open: procedural images "
            "for an encoder whose numbers come in no order.",
        ),
    ]
    base: Annotated[
        str | None,
        _role(
            "Public images of the same classes to start from.",
            "Source",
            "A public or synthetic dataset of the same classes that the method starts from "
            "instead of generating one.",
        ),
    ]
    contrast: Annotated[
        str | None,
        _role(
            "Public images of other kinds, for a test of likeness.",
            "Source",
            "Public images of other kinds than the public dataset, which a test of likeness holds "
            "it against; open: procedural images.",
        ),
    ]
    candidates: Annotated[
        str | None,
        _role(
            "Synthetic images to select from.",
            "Source",
            "A synthetic or public dataset of the private one's classes, or of some of them, whose "
            "best samples the method selects; they are released as they are.",
        ),
    ]
    cluster_encoder: Annotated[
        str | None,
        _role(
            "Encoder by which images are grouped.",
            "Encoder",
            "The encoder whose space is partitioned; open: the role encoder.",
        ),
    ]
    generator: Annotated[
        str | None,
        _role("Model that draws images from text.", "Generator", "The text-to-image generator."),
    ]
    renderer: Annotated[
        str | None,
        _role(
            "Model that draws the final images.",
            "Generator",
            "The generator of the final images; open: the role generator.",
        ),
    ]
    writer: Annotated[
        str | None, _role("Language model that writes captions.", "Writer", "The caption writer.")
    ]
    captioner: Annotated[
        str | None, _role("Model that describes images in words.", "Captioner", "The captioner.")
    ]
    denoiser: Annotated[
        str | None,
        _role(
            "Diffusion network that is trained.",
            "Denoiser",
            "The diffusion network that the method trains.",
        ),
    ]


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
    """The role's option on the command line."""
    return "--" + role.replace("_", "-")

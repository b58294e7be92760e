"""``understudy sample``: pictures of a sentence, or a base set, from a generator alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.option_values import Progress
from understudy.cli.printing import console as _console
from understudy.core.errors import ConfigError
from understudy.core.option import names_listed
from understudy.run.progress import reporting


def sample_command(
    out: Annotated[Path, typer.Option(help="Folder of the pictures, or of the release.")],
    prompt: Annotated[str | None, typer.Argument(help="What to draw.")] = None,
    classes: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME", help="Draw a release of these classes instead."),
    ] = None,
    count: Annotated[int, typer.Option(help="How many in all.")] = 16,
    model: Annotated[str, typer.Option(help="A generator; see `understudy backends`.")] = (
        "embedded:studio"
    ),
    seed: Annotated[int, typer.Option(min=0, help="The same seed draws the same pictures.")] = 0,
    template: Annotated[
        str | None, typer.Option(help="Of --classes: the prompt, with {class}.")
    ] = None,
    progress: Progress = "auto",
) -> None:
    """Draw pictures of a sentence, or a base set. Reads nothing private and spends nothing."""
    common: dict[str, Any] = {"out": out, "count": count, "model": model, "seed": seed}
    given: dict[str, Any] = {} if template is None else {"template": template}
    if (prompt is None) == (classes is None):
        raise ConfigError("say what to draw: a PROMPT, or --classes NAME,NAME for a release")
    if given and classes is None:
        raise ConfigError("--template is an option of --classes: leave it out")
    with reporting(progress) as events:
        common["progress"] = events
        if classes is not None:
            from understudy.run.sampled_release import base_set

            base = base_set(names_listed(classes), **common, **given)
        else:
            from understudy.run.sample import sample

            result = sample(prompt or "", **common)
    if classes is not None:
        _console.print(f"{base.count:,} images, no private data was used")
        _console.print(f"to share:  {base.release}")
        _console.print(f"images:    {base.contact_sheet}")
    else:
        _console.print(f"images: {len(result.image_paths)} in {result.sheet.parent}")
        _console.print(f"sheet:  {result.sheet}")

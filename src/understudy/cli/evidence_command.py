"""``understudy evidence``: what a data protection officer is asked for, in two folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.option_values import Progress
from understudy.cli.printing import AsJson, print_json
from understudy.cli.printing import console as _console


def evidence_command(
    folder: Annotated[
        Path, typer.Argument(help="A run or release, a device's home, or a server's folder.")
    ],
    to: Annotated[Path, typer.Option(help="Folder of the pack; an earlier pack is replaced.")],
    real: Annotated[
        str | None, typer.Option(help="The private dataset: run attacks, for the owner.")
    ] = None,
    test: Annotated[
        str | None, typer.Option(help="Real rows that were not in it; else what was held out.")
    ] = None,
    facts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="facts.yaml, filled in; else the last pack's."),
    ] = None,
    as_json: AsJson = False,
    progress: Progress = "auto",
) -> None:
    """Write evidence for a reviewer, shared/, and for the owner, owner/. Spends nothing."""
    from understudy.evidence.pack import evidence

    pack = evidence(folder, to=to, real=real, test=test, facts=facts, progress=progress)
    if as_json:
        print_json(
            {
                "folder": str(pack.folder),
                "kind": pack.kind,
                "files": list(pack.files),
                "open_slots": list(pack.open_slots),
                "notes": list(pack.notes),
            }
        )
        return
    _console.print(f"may be shared: {pack.shared}")
    _console.print(f"owner only:    {pack.owner}")
    for note in pack.notes:
        _console.print(f"note: {note}")
    if pack.open_slots:
        _console.print(
            f"to fill in:    {', '.join(pack.open_slots)}, in {pack.owner / 'facts.yaml'}; then "
            "the same command again"
        )

"""``understudy web``: the command line as pages on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Host = Annotated[str, typer.Option(help="Address to listen on; another one needs a certificate.")]
Port = Annotated[int, typer.Option(help="Port to listen on; 0: any that is free.")]
Certificate = Annotated[
    Path | None, typer.Option(metavar="FILE.pem", help="Certificate, for another --host.")
]
Key = Annotated[Path | None, typer.Option(metavar="FILE.pem", help="Its private key.")]
Folders = Annotated[
    list[Path] | None,
    typer.Option("--root", help="Folder that pages may name; repeatable. This one if not given."),
]


def web_command(
    root: Folders = None,
    ledger: Annotated[str | None, typer.Option(help="Path or address of the ledger.")] = None,
    host: Host = "127.0.0.1",
    port: Port = 8770,
    certificate: Certificate = None,
    key: Key = None,
) -> None:
    """Open the studio: the same as these commands, as pages on this machine alone."""
    from understudy.web.studio_app import WebOptions, serve_web

    options = WebOptions(
        tuple(root or [Path()]), host, port, ledger, certificate=certificate, key=key
    )
    serve_web(options, typer.echo)

"""``understudy web``: the command line as pages on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_Host = Annotated[str, typer.Option(help="Address to listen on; another one needs a certificate.")]
_Port = Annotated[
    int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any that is free.")
]
_Certificate = Annotated[
    Path | None, typer.Option(metavar="FILE.pem", help="Certificate, for another --host.")
]
_Key = Annotated[Path | None, typer.Option(metavar="FILE.pem", help="Its private key.")]
_Folders = Annotated[
    list[Path] | None,
    typer.Option("--root", help="Folder that pages may name; repeatable. This one if not given."),
]

_Home = Annotated[
    Path | None,
    typer.Option("--home", help="The device's folder; in your data folder if not given."),
]


def web_command(
    root: _Folders = None,
    ledger: Annotated[str | None, typer.Option(help="Path or address of the ledger.")] = None,
    host: _Host = "127.0.0.1",
    port: _Port = 8770,
    certificate: _Certificate = None,
    key: _Key = None,
) -> None:
    """Open the studio: the same as these commands, as pages on this machine alone."""
    from understudy.web.studio_app import WebOptions, serve_web

    options = WebOptions(
        tuple(root or [Path()]), host, port, ledger, certificate=certificate, key=key
    )
    serve_web(options, typer.echo)


def device_web_command(
    home: _Home = None,
    root: _Folders = None,
    ledger: Annotated[
        str | None, typer.Option("--ledger", help="Path or URL of the ledger, when first added.")
    ] = None,
    host: _Host = "127.0.0.1",
    port: _Port = 8771,
    certificate: _Certificate = None,
    key: _Key = None,
) -> None:
    """Open the device's pages on this machine alone: the same as these commands."""
    from understudy.device.home_folder import DeviceHome
    from understudy.web.studio_app import WebOptions, serve_web

    device = DeviceHome.of(home).folder
    folders = tuple(root or [Path()])
    options = WebOptions(folders, host, port, ledger, certificate, key, device)
    serve_web(options, typer.echo)

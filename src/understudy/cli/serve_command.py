"""``understudy serve``: the server of SpinML, its pairing codes and its devices."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.printing import AsJson, print_json
from understudy.core.errors import ConfigError

if TYPE_CHECKING:
    from understudy.server.job_store import JobStore
    from understudy.server.serve import ServerOptions

serve_app = typer.Typer(
    help="Serve jobs of devices: sanitised references in, a small model out.",
    invoke_without_command=True,
)

_Folder = Annotated[Path, typer.Option("--data", help="Folder of the server's keys and files.")]
_Database = Annotated[
    str | None, typer.Option(help="URL of SQLite or PostgreSQL; a file in the folder if not given.")
]

_DATA = Path("understudy-server")


def _options(**given: Any) -> ServerOptions:
    from understudy.server.serve import ServerOptions

    return ServerOptions(**given)


def _store(folder: Path, database: str | None) -> JobStore:
    from understudy.server.serve import require_server

    require_server(folder)
    return _options(folder=folder, database=database).store()


def _require_no_options(context: typer.Context, subcommand: str) -> None:
    """Refuse options before a subcommand, which would be ignored."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if getattr(source, "name", "DEFAULT") != "DEFAULT":
            raise ConfigError(f"{parameter.opts[0]} stands before `{subcommand}`: put it behind")


@serve_app.callback()
def serve_command(
    context: typer.Context,
    data: _Folder = _DATA,
    database: _Database = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8443,
    tls: Annotated[
        bool, typer.Option("--tls/--no-tls", help="Speak TLS, by its own certificate.")
    ] = True,
    url: Annotated[
        str | None, typer.Option(help="How devices reach it, where that is another.")
    ] = None,
    generator: Annotated[
        str, typer.Option(help="What draws; see `understudy backends`.")
    ] = "embedded:studio",
    segmenter: Annotated[
        str, typer.Option(help="What cuts objects out; see `understudy backends`.")
    ] = "embedded:studio",
    tune_background: Annotated[
        bool,
        typer.Option("--tune-background", help="DreamBooth of backgrounds, and merged inpainting."),
    ] = False,
    workers: Annotated[int, typer.Option(help="Worker processes.")] = 1,
    retention: Annotated[int, typer.Option(help="Hours until a job is deleted, at most 24.")] = 24,
    open_jobs: Annotated[int, typer.Option(help="Jobs of a device at a time.")] = 4,
    jobs_a_day: Annotated[int, typer.Option(help="Jobs of a device in 24 hours.")] = 32,
    stored_mb: Annotated[int, typer.Option(help="MiB of items of a device.")] = 128,
    job_minutes: Annotated[int, typer.Option(help="Minutes of work at a job, at most.")] = 240,
) -> None:
    """Serve until interrupted, and print a pairing code for one device."""
    if context.invoked_subcommand is not None:
        _require_no_options(context, context.invoked_subcommand)
        return
    from understudy.server.job_store import Quotas
    from understudy.server.serve import serve

    serve(
        _options(
            folder=data,
            database=database,
            host=host,
            port=port,
            tls=tls,
            url=url,
            generator=generator,
            segmenter=segmenter,
            tune_background=tune_background,
            workers=workers,
            retention_hours=retention,
            quotas=Quotas(open_jobs, jobs_a_day, stored_mb * 2**20, job_minutes * 60),
        ),
        typer.echo,
    )


@serve_app.command("pair")
def pair_command(data: _Folder = _DATA, database: _Database = None) -> None:
    """Print a pairing code for one more device; the server may be running.

    It names the address that the server was served at last.
    """
    from understudy.server.serve import pairing_line, require_server, served_at

    require_server(data)
    typer.echo(pairing_line(_options(folder=data, database=database, **served_at(data))))


@serve_app.command("devices")
def devices_command(
    data: _Folder = _DATA, database: _Database = None, as_json: AsJson = False
) -> None:
    """List the devices that were paired."""
    devices = _store(data, database).devices()
    if as_json:
        print_json([asdict(device) for device in devices])
        return
    for device in devices:
        paired = datetime.fromtimestamp(device.created, UTC).strftime("%Y-%m-%d %H:%M UTC")
        typer.echo(f"{device.id}  paired {paired}{'  revoked' if device.revoked else ''}")


@serve_app.command("revoke")
def revoke_command(
    device: Annotated[str, typer.Argument(help="Id, as `understudy serve devices` lists it.")],
    data: _Folder = _DATA,
    database: _Database = None,
) -> None:
    """Let a device's token hold no more."""
    if not _store(data, database).revoke(device):
        raise ConfigError(f"no device {device!r}: see `understudy serve devices`")
    typer.echo(f"{device} can do nothing more")

"""The studio as an application, and as a server on this machine."""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from understudy.core.errors import ConfigError, UnderstudyError, packages_for
from understudy.privacy.ledger.database import data_folder, with_password_in_environment
from understudy.privacy.ledger.ledger import Ledger
from understudy.web.child_jobs import ChildJobs
from understudy.web.confinement import FolderRoots
from understudy.web.data_pages import DataPages
from understudy.web.export_pages import ExportPages
from understudy.web.ledger_pages import LedgerPages
from understudy.web.local_guard import ENTRANCE, LocalGuard, Sessions
from understudy.web.plan_pages import PlanPages
from understudy.web.result_pages import ResultPages
from understudy.web.run_pages import RunPages, progress_router
from understudy.web.studio import STATIC_FILES, WebStudio, message_page, strings

with packages_for("the web studio", "web"):
    import uvicorn
    from fastapi import FastAPI
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

_PAGES = (
    *(("/", "data"), ("/runs", "runs"), ("/compare", "compare")),
    *(("/ledger", "ledger"), ("/verify", "verify")),
)
_DEVICE_PAGES = (
    *(("/", "photos"), ("/request", "request"), ("/preview", "preview")),
    *(("/history", "history"), ("/model", "model")),
)
"""Addresses of the pages in the navigation, and the names of their words."""

_CLOSING_SECONDS = 1  # for pages that still listen to progress


@dataclass(frozen=True, slots=True)
class WebOptions:
    """How a studio is served.

    Attributes:
        roots: The folders that pages may name.
        ledger: Path or URL of the ledger; None: the owner's own.
        certificate: PEM file of the certificate, and its key: needed beyond this machine.
        device: The device's folder, of `understudy device web`; None: the studio of datasets.
    """

    roots: tuple[Path, ...] = (Path(),)
    host: str = "127.0.0.1"
    port: int = 8770
    ledger: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    device: Path | None = None
    folder: Path = field(default_factory=lambda: data_folder() / "web")

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ConfigError("--certificate and --key go together: two PEM files")
        if not self.is_local and self.certificate is None:
            raise ConfigError(
                f"--host {self.host} can be reached from other machines, so pages go over TLS: "
                "give --certificate and --key, such as those of `openssl req -x509 -nodes -newkey "
                "rsa:2048 -keyout key.pem -out cert.pem`"
            )

    @property
    def is_local(self) -> bool:
        """Whether nothing but this machine can reach the pages."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def scheme(self) -> str:
        """How a browser speaks to it."""
        return "http" if self.certificate is None else "https"

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """The names that a browser may know it by."""
        names = {self.address.partition("://")[2]}
        return frozenset(names | ({f"localhost:{self.port}"} if self.is_local else set()))


def open_studio(options: WebOptions, announce: Callable[[str], None]) -> WebStudio:
    """A studio with its roots and jobs opened, whose ledger was looked at.

    Args:
        options: How it is served.
        announce: Given the link of the next browser, whenever the one before was used.
    """
    if options.device is None:
        Ledger(options.ledger, make=False).datasets()  # looked at once, before any click
    group, places = ("nav", _PAGES) if options.device is None else ("device_nav", _DEVICE_PAGES)
    words = strings()[group]
    navigation = tuple((path, words[name]) for path, name in places)
    return WebStudio(
        FolderRoots(options.roots),
        ChildJobs(options.folder / ("jobs" if options.device is None else "device-jobs")),
        Sessions(lambda token: announce(f"{options.address}{ENTRANCE}?token={token}")),
        options.ledger and with_password_in_environment(options.ledger),
        options.device,
        navigation,
    )


def studio_application(studio: WebStudio, options: WebOptions) -> LocalGuard:
    """The ASGI application of a studio, with its guard before it."""
    return LocalGuard(
        pages(studio, options),
        sessions=studio.sessions,
        hosts=options.hosts,
        scheme=options.scheme,
        cookie=cookie_name(options),
        page=message_page,
    )


def cookie_name(options: WebOptions) -> str:
    """The name of the cookie: browsers do not tell the ports of a host apart."""
    return f"understudy-{options.port}"


def pages(studio: WebStudio, options: WebOptions) -> FastAPI:
    """Every page, without its guard."""
    app = FastAPI(
        title="understudy web",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    entrance = _Entrance(studio, options)
    app.add_api_route(ENTRANCE, entrance.enter, methods=["GET"])
    app.add_api_route("/static/{name}", entrance.static, methods=["GET"])
    if studio.home is None:
        for part in (DataPages, PlanPages, RunPages, ResultPages, ExportPages, LedgerPages):
            app.include_router(part(studio).router())
    else:
        from understudy.web.device_pages import DevicePages

        app.include_router(DevicePages(studio).router())
    app.include_router(progress_router(studio))
    for kind, refusal in _REFUSALS.items():
        app.add_exception_handler(kind, partial(_refused, studio, refusal))
    return app


class _Entrance:
    """What is there without a session: the link, and files that are the same for everybody."""

    def __init__(self, studio: WebStudio, options: WebOptions) -> None:
        self._studio, self._options = studio, options

    def enter(self, token: str = "") -> Response:
        """A session for the token of a link; the address that a browser goes on to has none."""
        session = self._studio.sessions.exchange(token)
        if session is None:
            reason = "this link was used, or is of another start: take the one printed last"
            return HTMLResponse(message_page(403, reason), 403)
        response = RedirectResponse("/", 303)
        response.set_cookie(
            cookie_name(self._options),
            session,
            httponly=True,
            samesite="strict",
            secure=self._options.scheme == "https",
        )
        return response

    def static(self, name: str) -> Response:
        """A style, a script, or a licence."""
        if name not in STATIC_FILES:
            raise HTTPException(404)
        path, kind = STATIC_FILES[name]
        return FileResponse(path, media_type=kind)


_REFUSALS: dict[type[Exception], Callable[[Any], tuple[int, str]]] = {
    UnderstudyError: lambda error: (400, str(error)),
    OSError: lambda error: (400, error.strerror or "a file cannot be used"),
    RequestValidationError: lambda _: (
        422,
        "this address is not one that a page of the studio has",
    ),
    HTTPException: lambda error: (
        error.status_code,
        "the studio has no such page, or not for this",
    ),
}
"""Status and reason of the page that an error becomes."""


def _refused(studio: WebStudio, refusal: Any, _: Request, error: Exception) -> Response:
    """An error as a page. What its message quotes is text there."""
    status, reason = refusal(error)
    return HTMLResponse(message_page(status, reason, studio.navigation), status)


def serve_web(options: WebOptions, announce: Callable[[str], None]) -> None:
    """Serve until interrupted; runs that were begun go on.

    Raises:
        ConfigError: The port is in use, or the host is not this machine.
    """
    listener = _listener(options)
    if options.port == 0:
        options = replace(options, port=listener.getsockname()[1])
    studio = open_studio(options, lambda url: announce(f"for another browser: {url}"))
    config = uvicorn.Config(
        studio_application(studio, options),
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="off",
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
        ssl_version=ssl.PROTOCOL_TLS_SERVER,
        timeout_graceful_shutdown=_CLOSING_SECONDS,
    )
    if not options.is_local:
        announce(
            f"warning: {options.host} can be reached from other machines. Who has the link sees "
            "private images"
        )
    announce(f"open {options.address}{ENTRANCE}?token={studio.sessions.token}")
    announce("the link holds once; end with Ctrl-C, and runs go on")
    studio.jobs.start()
    try:
        uvicorn.Server(config).run([listener])
    finally:
        studio.jobs.close()
        sys.stdout.flush()


def _listener(options: WebOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:  # the link that is printed next is answered, if a little later
        return socket.create_server((options.host, options.port), family=family)
    except OSError as error:
        problem = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise ConfigError(
            f"{options.host}:{options.port}: {problem}; another studio may run: --port 8771"
        ) from error

"""The HTTP side of the server: every answer is a message of the wire, every body is counted.

What a caller may not know has one answer, 404 ``unknown``: for a token that is missing, malformed,
wrong or revoked, for a job of another device and for one that does not exist. It is given before a
body is read, after the same work. Nothing a device sent is logged or comes back in a message.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from understudy.core.errors import WireError, packages_for
from understudy.methods.sanitize import wire
from understudy.methods.sanitize.wire_items import ITEM_BYTES, Message
from understudy.server.job_service import ConflictError, JobService, UnsupportedJobError
from understudy.server.job_store import JobRow, QuotaRefusedError
from understudy.server.sealed_folders import JobGoneError

with packages_for("the server", "server"):
    from fastapi import FastAPI, Request, Response
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect
    from starlette.responses import StreamingResponse
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.types import Message as Event

_log = logging.getLogger(__name__)

BODY_SECONDS = 30.0
"""How long a body of a device may take to arrive."""
PAIRING_SECONDS, PAIRING_BYTES = 5.0, 256
"""How long the body of a pairing may take, which anybody may send, and how long it may be."""
PAIRINGS = 4
"""Pairings that are looked up at a time; their bodies are so short that any number may arrive."""
_MODEL_PART = 1 << 16
"""Bytes of a model that are sent at a time."""
BODIES, BODIES_OF_DEVICE = 64, 4
"""Bodies that are in memory at a time, in all and of one device."""

_PAIR = "/v1/pair"
_NO_TOKEN, _NO_JOB = bytes(32), "0" * 32
_TOKEN = re.compile(r"Bearer ([0-9a-f]{64})")
_JOB = re.compile(r"[0-9a-f]{32}")
_DIGEST = re.compile(r"[0-9a-f]{64}")

REFUSALS: dict[wire.RefusalCode, int] = {
    "unknown": 404,
    "malformed": 422,
    "unsupported": 422,
    "too-large": 413,
    "quota": 429,
    "conflict": 409,
    "incomplete": 408,
    "server": 500,
}
"""The HTTP status of each refusal."""

_UNKNOWN = (
    "the token does not hold, or this device has no such job (any more): pair again, for other "
    "jobs. All that was sent by another token is deleted within a day"
)


class _BodyTooLargeError(Exception):
    """More bytes have arrived than the method may have."""


class _RefusedError(Exception):
    def __init__(self, code: wire.RefusalCode, detail: str) -> None:
        self.code, self.detail = code, detail
        super().__init__(detail)


class Gate:
    """Counts the bytes of every body as they arrive, and lets no error out but as a refusal.

    ``limits`` are bytes by method, and a method that is not listed has no body; ``path_limits``
    bytes by path, where they are others.
    """

    def __init__(
        self, app: ASGIApp, limits: Mapping[str, int], path_limits: Mapping[str, int]
    ) -> None:
        self.app, self.limits, self.path_limits = app, limits, path_limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and refuse it where its body is too long."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit, count, begun = self.limits.get(scope["method"], 0), 0, False
        limit = min(limit, self.path_limits.get(scope["path"], limit))
        lengths = [value for name, value in scope["headers"] if name == b"content-length"]
        if any(not value.isdigit() or int(value[:20]) > limit for value in lengths):
            await _too_large(limit)(scope, receive, send)
            return

        async def counted() -> Event:
            nonlocal count
            event = await receive()
            count += len(event.get("body", b""))
            if count > limit:
                raise _BodyTooLargeError
            return event

        async def noted(event: Event) -> None:
            nonlocal begun
            begun = True
            await send(event)

        try:
            await self.app(scope, counted, noted)
        except _BodyTooLargeError:
            refusal = _too_large(limit)
        except Exception as error:  # nothing is let through to a log that prints its text
            _log.error("a request failed: %s", type(error).__name__)
            refusal = _refusal("server", "the server failed: try again")
        else:
            return
        if not begun:
            await refusal(scope, receive, send)


def application(service: JobService) -> FastAPI:
    """The ASGI application of a server."""
    app = FastAPI(
        title="understudy serve",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # a redirection repeats what was asked
    )
    endpoints = _Endpoints(service)
    job = "/v1/jobs/{job}"
    for method, path, endpoint in (
        ("GET", "/v1/about", endpoints.about),
        ("POST", _PAIR, endpoints.pair),
        ("POST", "/v1/jobs", endpoints.submit),
        ("GET", job, endpoints.state),
        ("DELETE", job, endpoints.delete),
        ("PUT", job + "/items/{digest}", endpoints.put_item),
        ("POST", job + "/start", endpoints.start),
        ("GET", job + "/model", endpoints.model),
    ):
        app.add_route(path, endpoint, methods=[method])
    app.add_exception_handler(_RefusedError, _refused)
    app.add_exception_handler(HTTPException, _no_such_path)
    app.add_middleware(
        Gate,
        limits={"POST": wire.MESSAGE_BYTES, "PUT": ITEM_BYTES},
        path_limits={_PAIR: PAIRING_BYTES},
    )
    return app


class _Endpoints:
    def __init__(self, service: JobService) -> None:
        self._service = service
        self._bodies = asyncio.Semaphore(BODIES)
        self._bodies_of: Counter[str] = Counter()
        self._pairings = asyncio.Semaphore(PAIRINGS)

    async def about(self, request: Request) -> Response:
        return _answer(await run_in_threadpool(self._service.about))

    async def pair(self, request: Request) -> Response:
        pairing = _message(wire.PairingRequest, await _body(request, PAIRING_SECONDS))
        async with self._pairings:
            result = await run_in_threadpool(self._service.pair, pairing.secret)
        if result is None:
            raise _RefusedError("unknown", "the pairing code does not hold: ask for a new one")
        return _answer(result)

    async def submit(self, request: Request) -> Response:
        device, _ = await self._access(request)
        if device is None:
            raise _RefusedError("unknown", _UNKNOWN)
        async with self._body_of(device):
            submission = _message(wire.JobSubmission, await _body(request, BODY_SECONDS))
            return _answer(await _done(self._service.submit, device, submission))

    async def state(self, request: Request) -> Response:
        _, row = await self._job(request)
        return _answer(await _done(self._service.state, row))

    async def put_item(self, request: Request) -> Response:
        device, row = await self._job(request)
        digest = request.path_params["digest"]
        if not _DIGEST.fullmatch(digest):
            raise _RefusedError("malformed", "an item is named by its digest")
        async with self._body_of(device):
            data = await _body(request, BODY_SECONDS)
            return _answer(await _done(self._service.put_item, row, digest, data))

    async def start(self, request: Request) -> Response:
        _, row = await self._job(request)
        return _answer(await _done(self._service.start, row))

    async def model(self, request: Request) -> Response:
        _, row = await self._job(request)
        data = await _done(self._service.model, row)

        async def parts() -> AsyncIterator[bytes]:
            for first in range(0, len(data), _MODEL_PART):
                yield data[first : first + _MODEL_PART]
            if request.method == "GET":  # all of it has gone out
                await run_in_threadpool(self._service.store.mark_delivered, row.id)

        headers = {"Content-Length": str(len(data)), "Content-Type": "application/octet-stream"}
        return StreamingResponse(parts(), headers=headers)

    async def delete(self, request: Request) -> Response:
        _, row = await self._job(request)
        return _answer(await _done(self._service.delete, row))

    async def _access(self, request: Request) -> tuple[str | None, JobRow | None]:
        bearer = _TOKEN.fullmatch(request.headers.get("authorization", ""))
        token = bytes.fromhex(bearer.group(1)) if bearer else _NO_TOKEN
        job = _JOB.fullmatch(request.path_params.get("job", ""))
        device, row = await run_in_threadpool(
            self._service.access, token, job.group() if job else _NO_JOB
        )
        connection = request.scope.get("state", {}).get("connection")
        if device is not None and connection is not None and not connection.admit(device):
            raise _RefusedError("quota", "this device has as many connections as it may")
        return device, row

    async def _job(self, request: Request) -> tuple[str, JobRow]:
        device, row = await self._access(request)
        if device is None or row is None:
            raise _RefusedError("unknown", _UNKNOWN)
        return device, row

    @asynccontextmanager
    async def _body_of(self, device: str) -> AsyncIterator[None]:
        """Room for a body of a device: what one device sends slowly takes no other's."""
        if self._bodies_of[device] >= BODIES_OF_DEVICE:
            raise _RefusedError("quota", f"at most {BODIES_OF_DEVICE} bodies of a device at a time")
        self._bodies_of[device] += 1
        try:
            async with self._bodies:
                yield
        finally:
            self._bodies_of[device] -= 1
            self._bodies_of += Counter()  # forgets devices at 0


async def _done(call: Callable[..., Any], *arguments: Any) -> Any:
    """What the call gives, outside of the event loop; its errors as refusals."""
    try:
        return await run_in_threadpool(call, *arguments)
    except WireError as error:
        raise _RefusedError("malformed", str(error)) from None
    except UnsupportedJobError as error:
        raise _RefusedError("unsupported", str(error)) from None
    except QuotaRefusedError as error:
        raise _RefusedError("quota", str(error)) from None
    except (ConflictError, JobGoneError) as error:
        raise _RefusedError("conflict", str(error)) from None


def _message(kind: type[wire.M], data: bytes) -> wire.M:
    try:
        return wire.decode_message(kind, data)
    except WireError as error:
        raise _RefusedError("malformed", str(error)) from None


async def _body(request: Request, seconds: float) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            return await request.body()
    except (TimeoutError, ClientDisconnect):
        raise _RefusedError("incomplete", "the body did not arrive whole: send it again") from None


def _answer(message: Message, status: int = 200) -> Response:
    return Response(wire.encode_message(message), status, media_type="application/json")


def _too_large(limit: int) -> Response:
    return _refusal("too-large", f"a body has at most {limit} bytes")


def _refusal(code: wire.RefusalCode, detail: str) -> Response:
    return _answer(wire.Refusal(error=code, detail=detail[:300]), REFUSALS[code])


async def _refused(request: Request, error: Exception) -> Response:
    if not isinstance(error, _RefusedError):
        raise error
    return _refusal(error.code, error.detail)


async def _no_such_path(request: Request, error: Exception) -> Response:
    return _refusal("unknown", _UNKNOWN)

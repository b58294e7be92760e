"""Whatever is sent, the answer is a message of the wire, and never a failure of the server."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.server.site import Server, submitted

from understudy.core.errors import WireError
from understudy.methods.sanitize import wire
from understudy.methods.sanitize.wire_items import ITEM_BYTES, Message
from understudy.server.application import REFUSALS, application
from understudy.server.job_store import Quotas

ANSWERS: tuple[type[Message], ...] = (
    wire.Refusal,
    wire.JobState,
    wire.DeletionReceipt,
    wire.About,
    wire.PairingResult,
)


@dataclass
class Caller:
    """Speaks ASGI to a server, request by request, each drawn at random around valid ones."""

    server: Server
    rng: np.random.Generator
    counts: Counter[int] = field(default_factory=Counter)
    jobs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.app = application(self.server.service)
        self.tokens = [self.server.token() for _ in range(3)]
        rest: dict[str, Any] = {"side": 16}
        pool = [submitted(level, n, **rest) for level in (0, 1, 2) for n in (1, 2)]
        self.pool = [*pool, submitted(1, 2, "box"), submitted(2, 1, side=128)]
        self.items = {digest: data for one in self.pool for digest, data in one.items.items()}

    def request(self) -> tuple[str, str, list[tuple[bytes, bytes]], list[bytes]]:
        """Method, path, headers and the chunks of the body."""
        pick = self.rng.integers
        job = self.jobs[pick(len(self.jobs))] if self.jobs and pick(8) else self._text()
        digest = list(self.items)[pick(len(self.items))] if pick(5) else self._text()
        submission = wire.encode_message(self.pool[pick(len(self.pool))].submission)
        secret = wire.encode_message(wire.PairingRequest(secret="0" * 32))
        query = "" if pick(3) else f"?{self._text()}"
        choices: list[tuple[str, str, bytes]] = [
            ("POST", "/v1/jobs", submission),
            ("PUT", f"/v1/jobs/{job}/items/{digest}", self.items.get(digest, b"x")),
            ("PUT", f"/v1/jobs/{job}/items/{digest}", self.items.get(digest, b"x")),
            ("POST", f"/v1/jobs/{job}/start", b""),
            ("GET", f"/v1/jobs/{job}{query}", b""),
            ("GET", f"/v1/jobs/{job}/model", b""),
            ("GET", "/v1/about", b""),
            ("POST", "/v1/pair", secret),
            ("DELETE", f"/v1/jobs/{job}", b""),
            (("PATCH", "TRACE", "GET", "HEAD")[pick(4)], f"/{self._text()}", b""),
        ]
        method, path, body = choices[pick(len(choices))]
        if not pick(3):
            body = self._changed(body)
        token = self.tokens[pick(3)] if pick(6) else self._text()
        headers = [(b"authorization", f"Bearer {token}".encode("latin-1", "replace"))]
        if not pick(6):
            headers.append((b"content-length", self._text().encode("latin-1", "replace")))
        cuts = sorted(int(at) for at in pick(0, len(body) + 1, pick(4)))
        chunks = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
        return method, path, headers, chunks

    def _text(self) -> str:
        pick = self.rng.integers
        texts = ["", "0" * 32, "../../server.key", "%2e%2e/keys", "\x00", "é", "9" * 400, "-1"]
        random = "".join(map(chr, pick(1, 0x2FF, pick(1, 40))))
        return texts[pick(len(texts))] if pick(2) else random

    def _changed(self, body: bytes) -> bytes:
        pick = self.rng.integers
        kind = pick(6)
        if kind == 0:
            return bytes(pick(0, 256, pick(2000), np.uint8))
        if kind == 1:
            return b"[" * int(pick(1, 40_000))
        if kind == 2:
            return bytes(pick(0, 256, ITEM_BYTES + int(pick(-3, 4)), np.uint8))
        if kind == 3 and body.startswith(b"{"):
            return json.dumps(self._shuffled(json.loads(body))).encode("utf-8", "replace")
        changed = bytearray(body or b"{}")
        for _ in range(pick(1, 5)):
            changed[pick(len(changed))] = pick(256)
        return bytes(changed[: pick(1, len(changed) + 1)])

    def _shuffled(self, value: Any) -> Any:
        """JSON with a value here and there replaced by one of another type."""
        pick = self.rng.integers
        if not pick(12):
            others = [None, True, -1, 1e308, 2**70, "", "A" * 300, [], {}, self._text(), [[1]]]
            return others[pick(len(others))]
        if isinstance(value, dict):
            return {key if pick(20) else "x": self._shuffled(one) for key, one in value.items()}
        return [self._shuffled(one) for one in value] if isinstance(value, list) else value

    async def call(self) -> None:
        method, path, headers, chunks = self.request()
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("utf-8", "replace"),
            "query_string": query.encode("utf-8", "replace"),
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        events = [
            {"type": "http.request", "body": chunk, "more_body": number < len(chunks) - 1}
            for number, chunk in enumerate(chunks)
        ]
        if self.rng.integers(50) == 0:
            events = [*events[:-1], {"type": "http.disconnect"}]
        answers: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return events.pop(0) if events else {"type": "http.disconnect"}

        async def send(event: Any) -> None:
            answers.append(event)

        await self.app(scope, receive, send)
        status = answers[0]["status"]
        body = b"".join(one.get("body", b"") for one in answers[1:])
        self.counts[status] += 1
        assert status < 500, (status, method, path, body)
        if method != "HEAD" and not path.endswith("/model"):
            self.check(method, path, status, body)

    def check(self, method: str, path: str, status: int, body: bytes) -> None:
        for kind in ANSWERS:
            try:
                message = wire.decode_message(kind, body)
            except WireError:
                continue
            if isinstance(message, wire.Refusal):
                assert REFUSALS[message.error] == status
            elif isinstance(message, wire.JobState) and message.job not in self.jobs:
                self.jobs = [*self.jobs[-15:], message.job]
            return
        raise AssertionError((method, path, status, body))


def fuzz(server: Server, requests: int, at_a_time: int = 8) -> Caller:
    caller = Caller(server, np.random.default_rng(requests))

    async def run() -> None:
        for start in range(0, requests, at_a_time):
            await asyncio.gather(*(caller.call() for _ in range(at_a_time)))
            if start % 1000 == 0:
                await asyncio.to_thread(server.work)

    asyncio.run(run())
    return caller


@pytest.fixture
def generous(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path, quotas=Quotas(50, 10**9, 2**40))
    yield server
    server.store.close()


def test_no_request_makes_the_server_fail(generous: Server) -> None:
    caller = fuzz(generous, 400)
    assert caller.counts[200] > 40
    assert {200, 404, 409, 413, 422} <= set(caller.counts)

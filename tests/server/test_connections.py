"""Slow and silent connections, plain HTTP, a proxy that speaks TLS, busy ports: real sockets."""

from __future__ import annotations

import asyncio
import datetime
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.device.device_site import DeviceSite
from tests.server.site import submitted

from understudy.core.errors import ConfigError, RunError, WireError
from understudy.device.outbox import Outbox, PairedServer, ServerConnection
from understudy.methods.sanitize import wire
from understudy.methods.sanitize.signed_results import check_signature, decode_model
from understudy.server.connections import ConnectionLimits, OpenConnections, listening_sockets
from understudy.server.serve import ServerOptions, serve

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("serving_process.py")
ATTACKERS = 200


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


@contextmanager
def serving_process(folder: Path, port: int, *words: str) -> Iterator[wire.PairingCode]:
    """A server with workers, and a code to pair with it."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(folder), str(port), *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline(), process.stdout.readline()]
        yield wire.PairingCode.read(lines[1].split()[-1])
    finally:
        process.send_signal(signal.SIGTERM)
        process.stdout.close()
        assert process.wait(60) == 0


Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _drip(writer: asyncio.StreamWriter, start: bytes, drop: bytes = b"a") -> None:
    writer.write(start)
    while True:
        await writer.drain()
        await asyncio.sleep(0.5)
        writer.write(drop)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def slow_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _drip(writer, b"GET /v1/about HTTP/1.1\r\nhost: x\r\nx: ")


async def slow_pairing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _drip(writer, b"POST /v1/pair HTTP/1.1\r\nhost: x\r\ncontent-length: 58\r\n\r\n{", b"")


async def slow_job(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    token = b"authorization: Bearer " + b"0" * 64
    await _drip(
        writer,
        b"POST /v1/jobs HTTP/1.1\r\nhost: x\r\n" + token + b"\r\ncontent-length: 9999\r\n\r\n{",
    )


async def slow_reading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:  # pipelined, and no answer is read
        writer.write(b"GET /v1/about HTTP/1.1\r\nhost: x\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.2)


ATTACKS: list[tuple[bool, Attack]] = [
    (False, silent),  # no handshake of TLS
    (True, silent),
    (True, slow_head),
    (True, slow_pairing),
    (True, slow_job),
    (True, slow_reading),
]


class Attackers:
    """So many connections at a time, each of which is opened again when it is ended."""

    def __init__(self, port: int, count: int) -> None:
        self._port, self._count, self.opened = port, count, 0
        self._over, self.ready = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._attack()))

    def __enter__(self) -> Attackers:
        self._thread.start()
        assert self.ready.wait(60)
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    async def _attack(self) -> None:
        tasks = [
            asyncio.create_task(self._again(*ATTACKS[number % len(ATTACKS)]))
            for number in range(self._count)
        ]
        while not self._over.is_set():
            if self.opened >= self._count * 0.9:
                self.ready.set()
            await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _again(self, tls: bool, attack: Attack) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.wait_for(
                    asyncio.open_connection("127.0.0.1", self._port, ssl=context if tls else None),
                    60,
                )
                self.opened += 1
                try:
                    await attack(reader, writer)
                finally:
                    writer.transport.abort()
            await asyncio.sleep(0.02)


def pair(code: wire.PairingCode) -> tuple[ServerConnection, str]:
    exchange = ServerConnection(code.url, code.certificate)
    body = wire.encode_message(wire.PairingRequest(secret=code.secret))
    status, answer = exchange("POST", "/v1/pair", body, None)
    assert status == 200, answer
    return exchange, wire.decode_message(wire.PairingResult, answer).token


def finish_a_job(exchange: ServerConnection, token: str, public_key: str) -> float:
    """From submission to receipt; the seconds that the slowest request took."""
    slowest = 0.0

    def call(method: str, path: str, body: bytes = b"") -> bytes:
        nonlocal slowest
        start = time.monotonic()
        status, answer = exchange(method, path, body, token)
        slowest = max(slowest, time.monotonic() - start)
        assert status == 200, answer
        return answer

    job = submitted()
    answer = call("POST", "/v1/jobs", wire.encode_message(job.submission))
    path = f"/v1/jobs/{wire.decode_message(wire.JobState, answer).job}"
    for digest, data in job.items.items():
        call("PUT", f"{path}/items/{digest}", data)
    state = wire.decode_message(wire.JobState, call("POST", f"{path}/start"))
    while state.state in ("queued", "running"):
        answer = call("GET", f"{path}?revision={state.revision}&wait=2")
        state = wire.decode_message(wire.JobState, answer)
    assert state.state == "done"
    decode_model(call("GET", f"{path}/model"), public_key)
    receipt = wire.decode_message(wire.DeletionReceipt, call("DELETE", path))
    check_signature(receipt, public_key)
    return slowest


@pytest.mark.parametrize("seconds", [0, pytest.param(60, marks=pytest.mark.slow)])
def test_slow_and_silent_connections_keep_no_device_out(tmp_path: Path, seconds: float) -> None:
    """200 at a time; a device pairs, and finishes job after job, each request within seconds."""
    port = free_port()
    with serving_process(tmp_path, port) as code:
        end = time.monotonic() + seconds
        with Attackers(port, ATTACKERS) as attackers:
            exchange, token = pair(code)
            jobs = 0
            while jobs == 0 or time.monotonic() < end:
                assert finish_a_job(exchange, token, code.public_key) < 10
                jobs += 1
                if jobs == 20:  # of 32 a day
                    break
            while time.monotonic() < end:
                assert exchange("GET", "/v1/about", b"", None)[0] == 200
        assert attackers.opened >= ATTACKERS * 0.9

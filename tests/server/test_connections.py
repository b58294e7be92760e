"""Slow and silent connections, plain HTTP, a proxy that speaks TLS, busy ports: real sockets."""

from __future__ import annotations

import asyncio
import datetime
import http.client
import os
import queue
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
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.device.device_site import DeviceSite
from tests.server.site import Server, Submitted, free_port, submitted

from understudy.core.errors import ConfigError, RunError, WireError
from understudy.device.outbox import Outbox, ServerConnection
from understudy.methods.sanitize import wire
from understudy.methods.sanitize.pairing_code import PairingCode
from understudy.methods.sanitize.signed_results import check_signature, decode_model
from understudy.server import application as server_application
from understudy.server.application import application
from understudy.server.connections import (
    BoundedServer,
    ConnectionLimits,
    OpenConnection,
    OpenConnections,
    listening_sockets,
)
from understudy.server.serve import ServerOptions, certificate_of, serve


@pytest.fixture
def site(tmp_path: Path) -> DeviceSite:
    return DeviceSite(tmp_path)


ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("serving_process.py")
ATTACKERS = 200


@contextmanager
def serving_process(
    *words: object, command: tuple[str, ...] = (str(SCRIPT),), path: str = ""
) -> Iterator[PairingCode]:
    """A server with workers, and a code to pair with it."""
    path = os.pathsep.join([str(ROOT), path, os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, *command, *map(str, words)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline(), process.stdout.readline()]
        yield PairingCode.read(lines[1].split()[-1])
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
        self._thread = threading.Thread(target=lambda: asyncio.run(self._attack()), daemon=True)

    def __enter__(self) -> Attackers:
        self._thread.start()
        assert self.ready.wait(60)
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    async def _attack(self) -> None:
        tasks = {
            asyncio.create_task(self._again(*ATTACKS[number % len(ATTACKS)]))
            for number in range(self._count)
        }
        while not self._over.is_set():
            if self.opened >= self._count * 0.9:
                self.ready.set()
            await asyncio.sleep(0.05)
        while tasks:  # `wait_for` loses a cancellation that comes with its result
            for task in tasks:
                task.cancel()
            _, tasks = await asyncio.wait(tasks, timeout=1)

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


def pair(code: PairingCode) -> tuple[ServerConnection, str]:
    exchange = ServerConnection(code.url, code.certificate)
    body = wire.encode_message(wire.PairingRequest(secret=code.secret))
    status, answer = exchange("POST", "/v1/pair", body, None)
    assert status == 200, answer
    return exchange, wire.decode_message(wire.PairingResult, answer).token


def finish_a_job(
    exchange: ServerConnection, token: str, public_key: str, job: Submitted | None = None
) -> tuple[float, wire.ModelResult, bytes]:
    """From submission to receipt; the seconds of the slowest request, the result, the model."""
    job, slowest = job or submitted(), 0.0

    def call(method: str, path: str, body: bytes = b"") -> bytes:
        nonlocal slowest
        start = time.monotonic()
        status, answer = exchange(method, path, body, token)
        slowest = max(slowest, time.monotonic() - start)
        assert status == 200, answer
        return answer

    answer = call("POST", "/v1/jobs", wire.encode_message(job.submission))
    path = f"/v1/jobs/{wire.decode_message(wire.JobState, answer).job}"
    for digest, data in job.items.items():
        call("PUT", f"{path}/items/{digest}", data)
    state = wire.decode_message(wire.JobState, call("POST", f"{path}/start"))
    while state.state in ("queued", "running"):
        time.sleep(0.5)
        state = wire.decode_message(wire.JobState, call("GET", path))
    assert state.state == "done"
    result, model = decode_model(call("GET", f"{path}/model"), public_key)
    receipt = wire.decode_message(wire.DeletionReceipt, call("DELETE", path))
    check_signature(receipt, public_key)
    assert receipt.delivered
    return slowest, result, model


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0, 60])
def test_slow_and_silent_connections_keep_no_device_out(tmp_path: Path, seconds: float) -> None:
    """200 at a time; a device pairs, and finishes job after job, each request within seconds."""
    port = free_port()
    with serving_process(tmp_path, port) as code:
        end = time.monotonic() + seconds
        with Attackers(port, ATTACKERS) as attackers:
            exchange, token = pair(code)
            jobs = 0
            while jobs == 0 or time.monotonic() < end:
                assert finish_a_job(exchange, token, code.public_key)[0] < 10
                jobs += 1
                if jobs == 20:  # of 32 a day
                    break
            while time.monotonic() < end:
                assert exchange("GET", "/v1/about", b"", None)[0] == 200
        assert attackers.opened >= ATTACKERS * 0.9


@pytest.mark.slow
def test_slow_guests_leave_when_their_time_is_over(tmp_path: Path) -> None:
    """A silent connection, one before and one after the handshake, and a slow head, are ended."""
    limits = ConnectionLimits(handshake=0.2, head=0.4)
    server = Server(tmp_path)
    with bounded(server, limits, tmp_path) as (port, context):
        for tls, attack, longest in (
            (False, b"", limits.handshake),
            (True, b"", limits.head),
            (True, b"GET /v1/about HTTP/1.1\r\nhost: x\r\n", limits.head),
        ):
            with socket.create_connection(("127.0.0.1", port)) as plain:
                one = context.wrap_socket(plain) if tls else plain
                one.settimeout(30)
                start = time.monotonic()
                one.sendall(attack)
                with suppress(OSError):
                    assert one.recv(1) == b""
                assert 0.5 * longest < time.monotonic() - start < longest + 10
                one.close()
    server.store.close()


@pytest.mark.slow
def test_an_answer_begins_a_new_time_for_the_next_head(tmp_path: Path) -> None:
    server = Server(tmp_path)
    with bounded(server, ConnectionLimits(head=0.5), tmp_path) as (port, context):
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
        connection.connect()
        socket_of_all = connection.sock
        start = time.monotonic()
        while time.monotonic() < start + 1:  # longer than a head may take
            connection.request("GET", "/v1/about")
            assert connection.getresponse().read()
            assert connection.sock is socket_of_all
        with suppress(OSError):
            assert socket_of_all.recv(1) == b""
        assert time.monotonic() - start < 1 + 0.5 + 10
        connection.close()
    server.store.close()


def test_what_one_device_sends_slowly_takes_no_other_device_anything(tmp_path: Path) -> None:
    """Four slow bodies of a device are taken, a fifth is refused; another device goes on."""
    server = Server(tmp_path)
    limits = ConnectionLimits(of_device=6)
    slow, other = server.token(), server.token()
    head = f"POST /v1/jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {slow}\r\n"
    with bounded(server, limits, tmp_path) as (port, context):
        url = f"https://127.0.0.1:{port}"
        digest = certificate_of(tmp_path / "tls")[2]
        exchange = ServerConnection(url, digest)
        job = wire.encode_message(submitted().submission)
        held = [
            context.wrap_socket(socket.create_connection(("127.0.0.1", port))) for _ in range(6)
        ]
        refused: queue.Queue[bytes] = queue.Queue()
        for one in held:
            one.sendall(f"{head}content-length: 9999\r\n\r\n{{".encode())
            receive = threading.Thread(target=lambda one=one: refused.put(one.recv(4096)))
            receive.start()
        answers = [refused.get(timeout=20) for _ in range(2)]
        assert all(answer.startswith(b"HTTP/1.1 429") for answer in answers)
        assert exchange("GET", "/v1/jobs/" + "0" * 32, b"", slow)[0] == 429  # a seventh connection
        assert exchange("POST", "/v1/jobs", job, other)[0] == 200
        assert refused.empty()  # of six bodies, four are waited for
        for one in held:
            one.shutdown(socket.SHUT_RDWR)
            one.close()
    server.store.close()


def test_a_slow_pairing_is_given_up_and_a_long_one_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, seconds = Server(tmp_path), 0.4
    assert server_application.PAIRING_SECONDS <= 5
    monkeypatch.setattr(server_application, "PAIRING_SECONDS", seconds)
    with bounded(server, ConnectionLimits(), tmp_path) as (port, context):
        head = b"POST /v1/pair HTTP/1.1\r\nhost: x\r\ncontent-length: "
        for length, status, longest in ((b"58", b"408", seconds), (b"9999", b"413", 0.0)):
            with context.wrap_socket(socket.create_connection(("127.0.0.1", port))) as one:
                one.settimeout(30)
                start = time.monotonic()
                one.sendall(head + length + b"\r\n\r\n{")
                assert one.recv(4096).startswith(b"HTTP/1.1 " + status)
                assert longest - 0.1 < time.monotonic() - start < longest + 10
    server.store.close()


@contextmanager
def bounded(
    server: Server, limits: ConnectionLimits, folder: Path
) -> Iterator[tuple[int, ssl.SSLContext]]:
    """A server of this process over TLS, with limits of its own, and how to speak to it."""
    certificate, key, _ = certificate_of(folder / "tls")
    config = uvicorn.Config(
        application(server.service),
        log_level="critical",
        access_log=False,
        lifespan="off",
        ssl_certfile=str(certificate),
        ssl_keyfile=str(key),
    )
    web = BoundedServer(config, limits)
    sockets = listening_sockets("127.0.0.1", free_port())
    running = threading.Thread(target=web.run, args=(sockets,), daemon=True)
    running.start()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        yield sockets[0].getsockname()[1], context
    finally:
        web.should_exit = True
        running.join()


def test_the_oldest_guest_goes_first_and_a_device_stays() -> None:
    limits = ConnectionLimits(connections=6, of_address=3, of_device=2)
    connections = OpenConnections(limits)

    def enter(peer: str) -> OpenConnection:
        connection = connections.enter(peer)
        assert connection is not None
        return connection

    device, second, third = (enter("10.0.0.1") for _ in range(3))
    assert device.admit("a")
    fourth = enter("10.0.0.1")  # the second, the oldest guest, goes
    assert [one in connections for one in (device, second, third)] == [True, False, True]
    assert third.admit("a")
    assert not fourth.admit("a")
    assert fourth.admit("b")
    assert connections.enter("10.0.0.1") is None  # three of devices: no guest of theirs can go
    others = [enter("10.0.0.2") for _ in range(3)]
    assert enter("10.0.0.3") in connections
    assert others[0] not in connections
    assert all(one in connections for one in (device, third, fourth))
    fourth.leave()
    fourth.leave()
    assert enter("10.0.0.1") in connections


@pytest.mark.parametrize(
    ("peers", "alike"),
    [
        (("2001:db8::1", "2001:db8::ffff:1"), True),
        (("2001:db8:0:1::1", "2001:db8:0:2::1"), False),
        (("::ffff:10.0.0.1", "10.0.0.1"), True),
        (("fe80::1%eth0", "fe80::2%eth1"), True),
        (("10.0.0.1", "10.0.0.2"), False),
    ],
)
def test_addresses_of_one_owner_are_counted_as_one(peers: tuple[str, str], alike: bool) -> None:
    connections = OpenConnections(ConnectionLimits(of_address=1))
    first = connections.enter(peers[0])
    assert first is not None
    connections.enter(peers[1])
    assert (first in connections) is not alike


@pytest.mark.parametrize(
    "url",
    ["http://192.168.1.20:8443", "http://example.org", "http://127.0.0.1.example.org:80",
     "http://10.0.0.1", "http://[2001:db8::1]:80", "http://localhost.example.org"],
)  # fmt: skip
def test_plain_http_to_another_machine_pairs_nobody(site: DeviceSite, url: str) -> None:
    text = f"{url}#{'0' * 32}.{'0' * 64}."
    with pytest.raises(WireError, match="in clear"):
        Outbox(site.home).pair(text)
    # A pairing of an earlier version, or a file that was changed, sends no token either.
    with pytest.raises(RunError, match="in clear"):
        ServerConnection(url, None)("GET", "/v1/about", b"", "1" * 64)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"tls": False, "host": "0.0.0.0", "url": "https://a.org"}, "in clear"),
        ({"tls": False, "host": "192.168.1.20"}, "in clear"),
        ({"tls": False, "url": "http://192.168.1.20:80"}, "plain http"),
        ({"url": "http://192.168.1.20:80"}, "plain http"),
        ({"url": "http://127.0.0.1:80"}, "speaks TLS"),
        ({"url": "https://a.org/path"}, "https://HOST"),
        ({"url": "https://a.org:65536"}, "https://HOST"),
    ],
)
def test_a_server_in_clear_is_refused(
    tmp_path: Path, fields: dict[str, object], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        ServerOptions(tmp_path, **fields)  # type: ignore[arg-type]


def test_a_busy_port_is_an_error_before_anything_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        options = ServerOptions(tmp_path / "server", port=door.getsockname()[1])
        with pytest.raises(ConfigError, match="is in use"):
            serve(options, print)
    with pytest.raises(ConfigError, match="cannot listen"):
        serve(ServerOptions(tmp_path / "server", host="203.0.113.9"), print)
    with pytest.raises(ConfigError, match="no address"):
        serve(ServerOptions(tmp_path / "server", host="no.such.host.invalid"), print)
    assert not (tmp_path / "server").exists()


class TlsProxy:
    """What stands in front of `serve --no-tls`: ends TLS, and forwards bytes to a port here."""

    def __init__(self, port: int, target: int, certificate: Path, key: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._port, self._target = port, target
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> TlsProxy:
        self._thread.start()
        assert self._started.wait(30)
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(
            self._forward, "127.0.0.1", self._port, ssl=self._context
        )
        self._started.set()
        await self._over.wait()
        server.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_connection("127.0.0.1", self._target)

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                while data := await source.read(65536):
                    target.write(data)
                    await target.drain()
            target.close()

        await asyncio.gather(pump(reader, outer), pump(inner, writer))


def authority(folder: Path, name: str) -> tuple[Path, Path, Path]:
    """An authority's certificate, and a certificate of that host with its key, as files."""
    now = datetime.datetime.now(datetime.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in ("authority", name)
    ]
    paths = []
    for number, (key, subject) in enumerate(zip(keys, names, strict=True)):
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(names[0])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=number == 0, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        )
        certificate = builder.sign(keys[0], hashes.SHA256())
        paths.append(folder / f"{number}.crt")
        paths[-1].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths.append(folder / "1.key")
    paths[-1].write_bytes(keys[1].private_bytes(serialization.Encoding.PEM, form, plain))
    return paths[0], paths[1], paths[2]


@pytest.mark.slow
def test_a_proxy_that_speaks_tls_works_as_documented(
    tmp_path: Path, site: DeviceSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--no-tls --url https://...`: an authority vouches for the proxy, or nothing is sent."""
    root, certificate, key = authority(tmp_path, "localhost")
    port, public_port = free_port(), free_port()
    with serving_process(tmp_path / "server", port, public_port) as code:
        assert (code.url, code.certificate) == (f"https://localhost:{public_port}", None)
        with TlsProxy(public_port, port, certificate, key):
            with pytest.raises(RunError, match=r"no authority.*Nothing was sent"):
                Outbox(site.home).pair(code.text())
            monkeypatch.setenv("SSL_CERT_FILE", str(root))
            paired = Outbox(site.home).pair(code.text())  # so its secret was not used before
            exchange = ServerConnection(paired.url, paired.certificate)
            finish_a_job(exchange, paired.token, paired.public_key)
            other = code.url.replace("localhost", "127.0.0.1")  # not the name of the certificate
            with pytest.raises(RunError, match="no authority"):
                ServerConnection(other, None)("GET", "/v1/about", b"", None)

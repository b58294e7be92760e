"""Run a server: its folder, its certificate, its workers, and uvicorn in front."""

from __future__ import annotations

import datetime
import json
import logging
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from understudy.backends.registry import load_encoder, load_model
from understudy.core.errors import ConfigError, InputError, packages_for
from understudy.core.files import make_private_file, write_whole
from understudy.core.ports import Generator, Segmenter, Tuner
from understudy.core.types import Shape
from understudy.core.version import understudy_version
from understudy.methods.sanitize.customise import STUDIO_TUNING, TuningPlan
from understudy.methods.sanitize.jobs import JobPipeline
from understudy.methods.sanitize.pairing_code import PairingCode, is_private
from understudy.methods.sanitize.spinml_pipeline import PartDirections, SpinmlPipeline
from understudy.metrics.semantic import part_directions
from understudy.server.application import application
from understudy.server.connections import (
    BoundedServer,
    ConnectionLimits,
    allow_files,
    listening_sockets,
)
from understudy.server.job_service import JobService, ServerKeys, alone_in, new_pairing_code
from understudy.server.job_store import JobStore, Quotas, WallClock
from understudy.server.sealed_folders import JobFolders
from understudy.server.worker import WorkerPool

with packages_for("the server", "server"):
    import uvicorn
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID
    from sqlalchemy import URL


_log = logging.getLogger(__name__)

TEND_SECONDS, SWEEP_SECONDS = 1.0, 60.0
_CERTIFICATE_DAYS = 3650
_SERVED = "served.json"
EVERY_ADDRESS = ("0.0.0.0", "::", "")
"""Hosts that stand for all addresses of a machine."""


def _steady_clock(latest: int) -> WallClock:
    """Seconds since 1970 that go on where the machine's clock is set back: jobs end in time.

    They go on from the latest time that is known, also where it was set back between two starts.
    """
    offset = latest - time.monotonic()

    def now() -> int:
        nonlocal offset
        offset = max(offset, time.time() - time.monotonic())
        return int(offset + time.monotonic())

    return now


@dataclass(frozen=True)
class ServerOptions:
    """How a server is run.

    Attributes:
        database: URL of the database; None for an SQLite file in the folder.
        segmenter: A segmenter of the backends, by its name: it cuts objects out.
        tune_background: Tune on background references, too, and inpaint with those weights.
        tls: Whether to speak TLS, with a certificate of its own; without, only on loopback.
        url: How devices reach it; None for host and port, where the host is one address.
        retention_hours: Hours after which everything of a job is deleted, at most 24.
    """

    folder: Path
    database: str | None = None
    generator: str = "embedded:studio"
    segmenter: str = "embedded:studio"
    tune_background: bool = False
    workers: int = 1
    host: str = "127.0.0.1"
    port: int = 8443
    tls: bool = True
    url: str | None = None
    retention_hours: int = 24
    quotas: Quotas = field(default_factory=Quotas)

    def __post_init__(self) -> None:
        if not 1 <= self.retention_hours <= 24:
            raise ConfigError(f"jobs are kept 1 to 24 hours, not {self.retention_hours}")
        if self.workers < 1 or not 1 <= self.port <= 65535:
            raise ConfigError("a server has a worker or more, and a port of 1 to 65535")
        if self.url is None and self.host in EVERY_ADDRESS:
            raise ConfigError(
                f"{self.host} is every address of this machine, and none that a device can reach: "
                "give --url as well, such as --url https://192.168.1.20:8443; pairing codes name it"
            )

        if not self.tls and not is_private(f"http://{self._host}"):
            raise ConfigError(
                f"--no-tls on {self.host} would carry tokens and items in clear: it is for a proxy "
                "on this machine that speaks TLS, so give --host 127.0.0.1, and the proxy's "
                "address as --url"
            )
        try:
            PairingCode(url=self.address, secret="0" * 32, public_key="0" * 64)
        except ValidationError:
            raise ConfigError(
                f"--url is https://HOST or https://HOST:PORT, found {self.address!r}; devices "
                "refuse plain http but on their own machine"
            ) from None
        if self.tls and not self.address.startswith("https:"):
            raise ConfigError(f"this server speaks TLS, so --url is https, not {self.address!r}")

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def address(self) -> str:
        """How devices reach it."""
        return self.url or f"{'https' if self.tls else 'http'}://{self._host}:{self.port}"

    def store(self) -> JobStore:
        """Its database, opened."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = str(self.folder.absolute() / "server.db")  # a ? in it would begin options
        if self.database is None:  # what SQLite makes beside it has its mode
            make_private_file(Path(file))
        return JobStore(self.database or URL.create("sqlite", database=file), _steady_clock)

    def pipeline(self) -> JobPipeline:
        """What makes models of jobs, over the generator and the tuner of one name.

        Their inpainting has no seam: an object's rim would fade into the grey that it stands on.
        """
        from understudy.backends.tuning import SPINML
        from understudy.server.model_training import SmallModelTraining

        small = self.generator.startswith("embedded:")
        generator = load_model(Generator, self.generator, seam=0)
        return SpinmlPipeline(
            generator,
            load_model(Segmenter, self.segmenter),
            SmallModelTraining(),
            tuner=load_model(Tuner, self.generator, seam=0),
            plan=TuningPlan(STUDIO_TUNING if small else asdict(SPINML), self.tune_background),
            directions=_looks(generator.shape),
        )

    def __call__(self) -> JobService:
        """Everything opened, the models loaded: what a worker process does first."""
        return JobService(
            self.store(),
            JobFolders(self.folder),
            ServerKeys.of(self.folder),
            self.pipeline(),
            quotas=self.quotas,
            retention=self.retention_hours * 3600,
            version=f"understudy {understudy_version()}",
        )


def _looks(shape: Shape) -> PartDirections | None:
    """By what devices compare synthetic images with their photos; None without the mini studio."""
    try:
        encoder = load_encoder("embedded:studio", shape=shape)
    except InputError:
        return None
    return partial(part_directions, encoder=encoder)


def require_server(folder: Path) -> None:
    """Refuse a folder that no server has served from: a code for it would pair with nobody.

    Raises:
        ConfigError: It is none.
    """
    if not (folder / "server.key").exists():
        raise ConfigError(f"no server has run from {folder}: --data names the folder of one")


def served_at(folder: Path) -> dict[str, Any]:
    """``url`` and ``tls`` of the server that ran from a folder last; {} where none is known."""
    place = folder / _SERVED
    return dict(json.loads(place.read_text(encoding="ascii"))) if place.exists() else {}


def pairing_line(options: ServerOptions) -> str:
    """A new pairing code for the server of this folder, whether it runs or not."""
    certificate = certificate_of(options.folder)[2] if options.tls else None
    keys = ServerKeys.of(options.folder)
    store = options.store()
    try:
        return new_pairing_code(store, keys, options.address, certificate).text()
    finally:
        store.close()


def serve(options: ServerOptions, announce: Callable[[str], None]) -> None:
    """Serve until interrupted.

    ``announce`` is given each line for the server's owner, a pairing code among them.

    Raises:
        ConfigError: The port is in use, or the host is not this machine; nothing was made.
    """
    sockets = listening_sockets(options.host, options.port)
    limits = allow_files(ConnectionLimits())
    try:
        _serve_on(sockets, limits, options, announce)
    finally:
        for one in sockets:
            one.close()


def _serve_on(
    sockets: list[socket.socket],
    limits: ConnectionLimits,
    options: ServerOptions,
    announce: Callable[[str], None],
) -> None:
    service = options()
    pool = WorkerPool(options, service, options.workers)
    service = replace(service, stop_worker=pool.stop_worker)
    files = certificate_of(options.folder) if options.tls else None
    config = uvicorn.Config(
        application(service),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="off",
        loop="asyncio",
        ssl_certfile=files[0] if files else None,
        ssl_keyfile=str(files[1]) if files else None,
        ssl_version=ssl.PROTOCOL_TLS_SERVER,
    )
    place = {"url": options.address, "tls": options.tls}
    write_whole(options.folder / _SERVED, json.dumps(place).encode("ascii"))
    over = threading.Event()
    tending = threading.Thread(target=_tend, args=(service, pool, over), daemon=True)
    tending.start()
    announce(f"serving {service.pipeline.name} at {options.address}")
    announce(f"to pair a device within 15 minutes: {pairing_line(options)}")
    # uvicorn ends its connections, then raises the signal again for whoever had it before.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    try:
        BoundedServer(config, limits).run(sockets)
    finally:
        over.set()
        tending.join()
        pool.close()
        service.store.close()


def _tend(service: JobService, pool: WorkerPool, over: threading.Event) -> None:
    swept = 0.0
    while not over.is_set():
        try:
            pool.tend()
            service.end_overtime()
            if time.monotonic() - swept > SWEEP_SECONDS or swept == 0:
                service.sweep()
                swept = time.monotonic()
        except Exception as error:  # a database that is away for a while must not end retention
            _log.error("tending failed, and is tried again: %s", type(error).__name__)
        over.wait(TEND_SECONDS)


def certificate_of(folder: Path) -> tuple[Path, Path, str]:
    """The certificate, its key, and its SHA-256; self-signed, made where there is none.

    Devices compare the fingerprint of their pairing code, and trust no authority.
    """
    certificate_file, key_file = folder / "tls.crt", folder / "tls.key"
    with alone_in(folder):
        if not certificate_file.exists():
            certificate, key = _new_certificate()
            write_whole(key_file, key)
            write_whole(certificate_file, certificate)
    der = ssl.PEM_cert_to_DER_cert(certificate_file.read_text(encoding="ascii"))
    return certificate_file, key_file, sha256(der).hexdigest()


def _new_certificate() -> tuple[bytes, bytes]:
    """A self-signed certificate of no host, and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "understudy")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_CERTIFICATE_DAYS))
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    return certificate.public_bytes(encoding), key.private_bytes(encoding, form, plain)

"""Running a server: options, certificate, pairing by the command line, PostgreSQL, timing."""

import itertools
import os
import signal
import sqlite3
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Barrier, Event, Thread
from types import SimpleNamespace

import numpy as np
import pytest
from tests.conftest import Missing
from tests.server.site import CANARY, CLASSES, NOUN, Device, Server, free_port, submitted
from typer.testing import CliRunner

from understudy.cli.main import app
from understudy.core.errors import ConfigError, InputError
from understudy.methods.sanitize.pairing_code import PairingCode
from understudy.methods.sanitize.signed_results import decode_model
from understudy.server import serve
from understudy.server.job_service import ServerKeys
from understudy.server.job_store import DAY, JobStore
from understudy.server.serve import ServerOptions, certificate_of


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_every_address_is_none_that_a_pairing_code_can_name(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match="--url"):
        ServerOptions(tmp_path, host=host)
    reached = ServerOptions(tmp_path, host=host, url="https://192.168.1.20:8443")
    assert reached.address == "https://192.168.1.20:8443"


@pytest.mark.slow
def test_ctrl_c_ends_a_server_without_a_traceback_and_its_address_is_known(tmp_path: Path) -> None:
    """A terminal sends it to the workers too, which were loading their models, or asleep."""
    words = [sys.executable, "-m", "understudy", "serve", "--data", str(tmp_path)]
    words += ["--port", str(free_port()), "--url", "https://192.168.1.20:8443"]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("serving")
    time.sleep(3)
    os.killpg(process.pid, signal.SIGINT)
    assert "Traceback" not in process.communicate(timeout=60)[1]
    command = ["serve", "pair", "--data", str(tmp_path)]
    code = PairingCode.read(CliRunner().invoke(app, command).output)
    assert code.url == "https://192.168.1.20:8443"


@pytest.mark.parametrize("url", ["mysql://host/name", "no url", "sqlite:////proc/none/x.db"])
def test_a_database_that_cannot_be_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="--database"):
        JobStore(url, lambda latest: lambda: 0)


def test_a_database_of_another_version_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "server.db") as connection:
        connection.execute("CREATE TABLE jobs (id TEXT, revision INTEGER NOT NULL)")
    with pytest.raises(ConfigError, match=r"another --data.*delete the folder of before"):
        JobStore(f"sqlite:///{tmp_path / 'server.db'}", lambda latest: lambda: 0)


def test_the_database_is_in_the_folder_whatever_that_is_called(tmp_path: Path) -> None:
    folder = tmp_path / "what?timeout=1#%20"
    folder.mkdir(mode=0o755)
    ServerOptions(folder).store().close()
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert stat.S_IMODE((folder / "server.db").stat().st_mode) == 0o600


def test_the_certificate_is_made_once_and_named_by_its_digest(tmp_path: Path) -> None:
    certificate, key, digest = certificate_of(tmp_path)
    assert certificate_of(tmp_path) == (certificate, key, digest)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    der = ssl.PEM_cert_to_DER_cert(certificate.read_text())
    assert sha256(der).hexdigest() == digest
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)


def test_keys_and_certificate_are_made_once_by_any_number_of_processes(tmp_path: Path) -> None:
    made: list[tuple[ServerKeys, tuple[Path, Path, str]]] = []
    together = Barrier(8)

    def make() -> None:
        keys = ServerKeys.of(tmp_path)
        together.wait()
        made.append((keys, certificate_of(tmp_path)))

    threads = [Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(set(made))) == (8, 1)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"server.key", "tls.crt", "tls.key"}
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*made[0][1][:2])
    assert stat.S_IMODE((tmp_path / "server.key").stat().st_mode) == 0o600
    (tmp_path / "server.key").write_bytes(b"short")
    with pytest.raises(InputError, match="no server key"):
        ServerKeys.of(tmp_path)


def test_pairing_and_revoking_by_the_command_line(tmp_path: Path) -> None:
    def run(*words: str) -> str:
        result = CliRunner().invoke(app, ["serve", *words, "--data", str(tmp_path)])
        assert result.exit_code == 0, result.output
        return result.output.strip()

    server = Server(tmp_path, now=int(time.time()))
    code = PairingCode.read(run("pair"))
    assert code.certificate == certificate_of(tmp_path)[2]
    assert code.public_key == server.service.keys.public_key
    paired = server.service.pair(code.secret)
    assert paired is not None
    (device,) = server.store.devices()
    assert run("devices").startswith(f"{device.id}  paired 20")
    run("revoke", device.id)
    assert run("devices").endswith("revoked")
    with server.client() as client:
        assert Device(client, paired.token).call("POST", "/v1/jobs").status_code == 404
    wrong = CliRunner().invoke(app, ["serve", "revoke", "nobody", "--data", str(tmp_path)])
    assert isinstance(wrong.exception, ConfigError)


def test_options_before_a_subcommand_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No second server is made in the folder where the command is given."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    data = ["--data", str(tmp_path / "server")]
    for words in (data, ["--workers", "2"], ["--port", "9000"]):
        ran = CliRunner().invoke(app, ["serve", *words, "pair"])
        assert isinstance(ran.exception, ConfigError)
        assert f"{words[0]} stands before `pair`: put it behind" in str(ran.exception)
    for words in (["pair"], ["devices"], ["revoke", "1"]):
        ran = CliRunner().invoke(app, ["serve", *words])
        assert isinstance(ran.exception, ConfigError)
        assert "no server has run from understudy-server: --data" in str(ran.exception)
    assert list(here.iterdir()) == []


def test_retention_goes_on_after_a_failure(
    server: Server,
    device: Device,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    device.send(submitted())
    server.now += DAY
    over, rounds = Event(), itertools.count()

    class Pool:
        def tend(self) -> None:
            if next(rounds) == 0:
                raise OSError("secretword")
            over.set()

    monkeypatch.setattr(serve, "TEND_SECONDS", 0)
    serve._tend(server.service, Pool(), over)  # type: ignore[arg-type]
    assert server.service.folders.jobs() == set()
    assert "OSError" in caplog.text
    assert "secretword" not in caplog.text


def test_the_time_limit_of_a_job_is_kept_while_serving(
    server: Server, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, over = device.send(submitted()), Event()
    assert server.store.claim("worker", 60) is not None
    assert server.store.renew(job, "worker", 60, server.quotas.job_seconds + 1)

    class Pool:
        def tend(self) -> None:
            if server.stopped:
                over.set()

    monkeypatch.setattr(serve, "TEND_SECONDS", 0)
    serve._tend(server.service, Pool(), over)  # type: ignore[arg-type]
    assert server.stopped == ["worker"]
    assert device.state("GET", f"/v1/jobs/{job}").failure == "time"


@pytest.fixture
def postgres_url(missing: Missing) -> Iterator[str]:
    try:
        from tests.privacy import postgres_server
    except ImportError as error:
        missing("postgres", f"needs pip install 'understudy[postgres]': {error}")
    try:
        with postgres_server.serving() as socket:
            yield postgres_server.create_schema(socket, "jobs")
    except postgres_server.NoServerError as reason:
        missing("postgres", str(reason))


def test_jobs_in_postgresql(postgres_url: str, tmp_path: Path) -> None:
    server = Server(tmp_path, database=postgres_url)
    with server.client() as client:
        device, other = Device(client, server.token()), Device(client, server.token())
        job = device.send(submitted())
        assert other.call("GET", f"/v1/jobs/{job}").status_code == 404
        again = Server(tmp_path, database=postgres_url)
        assert again.work()
        assert not server.work()
        key = server.service.keys.public_key
        answer = device.call("GET", f"/v1/jobs/{job}/model")
        assert decode_model(answer.content, key)[0].job == job
        another = device.send(submitted(0))
        server.now += DAY
        assert server.service.sweep() == 2
        assert device.state("GET", f"/v1/jobs/{another}").state == "deleted"
        dump = [str(row) for row in server.store.devices()]
        assert len(dump) == 2
    with server.store._read() as connection:
        rows = connection.exec_driver_sql("SELECT jobs::text FROM jobs").all()
    assert len(rows) == 2
    assert not [word for word in (NOUN, CLASSES[0], CANARY.decode()) if word in str(rows)]
    for one in (server, again):
        one.store.close()


@pytest.mark.slow
def test_the_same_answer_takes_the_same_time(server: Server, device: Device, other: Device) -> None:
    """Medians of 400 calls each, in turn, differ by less than the calls of one kind vary."""
    job = device.send(submitted())
    revoked = Device(device.client, server.token())
    server.store.revoke(server.store.devices()[-1].id)
    callers = {
        "another device": other,
        "wrong": Device(device.client, "0" * 64),
        "missing": Device(device.client, ""),
        "revoked": revoked,
    }
    seconds: dict[str, list[float]] = {name: [] for name in callers}
    for _ in range(400):
        for name, caller in callers.items():
            start = time.perf_counter()
            assert caller.call("GET", f"/v1/jobs/{job}").status_code == 404
            seconds[name].append(time.perf_counter() - start)
    quartiles = {name: np.quantile(taken, [0.25, 0.5, 0.75]) for name, taken in seconds.items()}
    print({name: (1e6 * values).round().tolist() for name, values in quartiles.items()})
    medians = [values[1] for values in quartiles.values()]
    spread = min(values[2] - values[0] for values in quartiles.values())
    assert max(medians) - min(medians) < spread


def watches(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The two clocks of a server's machine, to be set."""
    machine = {"time": 1e9, "monotonic": 50.0}
    clocks = SimpleNamespace(**{name: partial(machine.get, name) for name in machine})
    monkeypatch.setattr("understudy.server.serve.time", clocks)
    return machine


def test_a_clock_that_is_set_back_keeps_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was to go after 24 hours stayed for as much longer as the clock had gone back."""
    machine = watches(monkeypatch)
    clock = ServerOptions(tmp_path / "server").store().clock
    assert clock() == 10**9
    machine |= {"time": 1e9 - 80_000, "monotonic": 110.0}
    assert clock() == 10**9 + 60
    machine |= {"time": 1e9 + 500, "monotonic": 120.0}  # and forward again
    assert clock() == 10**9 + 500


def test_a_server_that_is_started_in_an_earlier_time_keeps_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock was set back while it was down: jobs stayed for as much longer."""
    machine = watches(monkeypatch)
    options = ServerOptions(tmp_path / "server")
    store = options.store()
    store.forget()  # as every sweep does
    store.close()
    machine |= {"time": 1e9 - 80_000, "monotonic": 5.0}
    clock = options.store().clock
    assert clock() == 10**9
    machine |= {"time": 1e9 - 79_940, "monotonic": 65.0}
    assert clock() == 10**9 + 60
    machine |= {"time": 1e9 + 500, "monotonic": 70.0}  # and put right
    assert clock() == 10**9 + 500

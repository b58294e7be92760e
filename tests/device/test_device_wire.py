"""The device over real HTTP: lean, pinned to a certificate, and killed without losing its rows."""

import os
import random
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import uvicorn
from tests.device.device_site import SEGMENTER, DeviceSite, child, kill
from tests.device.wire_proxy import WireProxy
from tests.server.site import Device, Server, Submitted
from typer.testing import CliRunner

from understudy.cli.main import app
from understudy.core.errors import RunError, UnderstudyError
from understudy.device.home_folder import write_file
from understudy.device.outbox import Outbox, ServerConnection, ServerRefused, ServerUnreachable
from understudy.device.paired_servers import PairedServer
from understudy.device.parcel import Parcel, stored_parcel
from understudy.device.preview import DisclosurePreview
from understudy.methods.sanitize import signed_results, wire
from understudy.server.application import application
from understudy.server.job_service import JobService
from understudy.server.job_store import Quotas
from understudy.server.serve import certificate_of
from understudy.server.worker import Worker

KILLS = 200


@contextmanager
def serving(service: JobService, **options: str) -> Iterator[int]:
    """A server of this process on a port of its own."""
    config = uvicorn.Config(
        application(service), log_level="critical", access_log=False, lifespan="off", **options
    )
    web = uvicorn.Server(config)
    door = socket.create_server(("127.0.0.1", 0))
    running = threading.Thread(target=web.run, args=([door],), daemon=True)
    running.start()
    try:
        yield door.getsockname()[1]
    finally:
        web.should_exit = True
        running.join()
        door.close()


def test_eight_photos_of_edges_take_at_most_8_kib_with_every_header(
    site: DeviceSite, server: Server, tmp_path: Path
) -> None:
    site.add(8)
    with serving(server.service) as port:
        proxy = WireProxy(port, tmp_path / "wire")
        proxy.start()
        code = server.pairing_code(f"http://127.0.0.1:{proxy.port}").text()
        Outbox(site.home).pair(code)
        before = len(list((tmp_path / "wire").iterdir()))
        shown = site.show({"dog": "edges"}, references=8)
        Outbox(site.home).send(shown.parcel.digest, shown.code)
        proxy.close()
    records = sorted((tmp_path / "wire").iterdir())[before:]
    sent = [record.read_bytes() for record in records]
    assert len(sent) == 2 + 8
    # Edges at 64 pixels a side are 384 bytes longer each than those of these small photos.
    assert sum(map(len, sent)) + 8 * (512 - 128) <= 8 * 1024
    headers = {
        line.split(b":")[0].lower()
        for data in sent
        for line in data.split(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    }
    assert headers == {b"host", b"authorization", b"content-length"}


class Terminal:
    """The command line of one device, in this process."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def __call__(self, *words: object) -> str:
        arguments = ["device", *map(str, words), "--home", str(self.home)]
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())


@pytest.mark.slow
def test_the_whole_way_by_the_command_line(site: DeviceSite, server: Server) -> None:
    device = Terminal(site.home.folder)
    place, homes = site.public()
    photos = site.add(5)
    assert "0 photos added, 5 were there before" in device("add", photos)
    site.add_labelled()
    asked = ("--target", "dog", "--background", "room", "--classes", "blue, green")
    asked = (*asked, "--segmenter", SEGMENTER)
    said = device("request", *asked, "--level", "dog=segment", "--references", 3)
    assert "dog (object): L2, its pixels room (background): L0, its name alone" in said
    assert "train here, and nothing leaves" in said
    said = device("segment", "--leave-out", "2")
    assert "dog: in 5 of 5 photos" in said
    checks = ("--rooms", place, "--compare-with", homes, "--no-measure")
    said = device("preview", *checks)
    assert "dog of 1, 3, 4" in said
    assert "send --yes" not in said  # there is nobody to agree to yet
    with serving(server.service) as port:
        url = f"http://127.0.0.1:{port}"
        assert f"paired with {url}" in device("pair", server.pairing_code(url).text())
        said = device("preview", *checks)
        assert f"It would go to 127.0.0.1:{port}, key {server.service.keys.public_key[:16]}" in said
        code = said.split("understudy device send --yes ")[1][:8]
        assert "the job is queued" in device("send", "--yes", code)
        server.work()
        assert "done, 4 of 4 stages" in device("status", "--wait")
        assert "right in 100.0% of 6 labelled photos installed: it is the first" in device("model")
        assert "deleted:" in device("delete", "--code", code)
        assert "deleted in" not in device("status")  # as if it were still to come
    said = device("history")
    assert "dog: L2, target, 3 items" in said
    assert "1 disclosure in the ledger" in said
    assert "* classifier of blue, green: server, dog L2, room L0; right in 100.0%" in said
    with pytest.raises(RunError, match="'server, dog L2, room L0' stays installed"):
        device("model", "--rollback")


UNICORN = ["request", "--target", "unicorn", "--background", "room", "--classes", "eating,not"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["request", "--target", "dog", "--background", "room", "--level", "dog"], "PART=WHAT"),
        ([*UNICORN, "--segmenter", SEGMENTER], "no class for 'unicorn'; it has"),
        (
            [*UNICORN, "--level", "unicorn=edges"],
            "none has a class for 'unicorn': embedded:studio has",
        ),
        (["segment", "--leave-out", "two"], "numbers with commas"),
        (["status"], "nothing was sent yet"),
        (["preview"], "no model was asked for yet"),
    ],
)
def test_a_command_that_cannot_be_says_why(
    site: DeviceSite, words: list[str], problem: str
) -> None:
    site.add(2)
    if words[0] == "segment":
        site.ask()
    with pytest.raises(UnderstudyError, match=problem):
        Terminal(site.home.folder)(*words)
    assert words[0] != "request" or not site.home.path("request.json").exists()


@pytest.mark.parametrize(
    ("words", "choices"),
    [
        (["add", "photos", "--fit", "round"], ("crop", "pad", "stretch")),
        (
            ["request", "--target", "dog", "--background", "room", "--training", "other"],
            ("classifier", "detector"),
        ),
    ],
)
def test_a_value_that_is_no_choice_is_refused_with_the_choices(
    words: list[str], choices: tuple[str, ...]
) -> None:
    result = CliRunner().invoke(app, ["device", *words])
    assert result.exit_code == 2
    assert all(choice in result.output for choice in choices)


def test_another_certificate_gets_nothing(site: DeviceSite, server: Server, tmp_path: Path) -> None:
    certificate, key, fingerprint = certificate_of(tmp_path / "tls")
    with serving(server.service, ssl_certfile=str(certificate), ssl_keyfile=str(key)) as port:
        proxy = WireProxy(port, tmp_path / "wire")
        proxy.start()
        url = f"https://127.0.0.1:{proxy.port}"
        with pytest.raises(RunError, match="another certificate"):
            Outbox(site.home).pair(server.pairing_code(url, "0" * 64).text())
        paired = Outbox(site.home).pair(server.pairing_code(url, fingerprint).text())
        assert isinstance(paired, PairedServer)
        proxy.close()
    refused, accepted = (path.read_bytes() for path in sorted((tmp_path / "wire").iterdir()))
    assert len(refused) < len(accepted)
    with pytest.raises(ServerUnreachable, match="did not answer"):
        Outbox(site.home).pair(server.pairing_code(url, fingerprint).text())


@pytest.mark.parametrize("body", [b"", b'{"job":'])
def test_an_answer_that_is_cut_off_is_none(body: bytes) -> None:
    """It was read as the whole answer, and refused as no message: sending again is the remedy."""
    with socket.create_server(("127.0.0.1", 0)) as door:

        def answer() -> None:
            connection, _ = door.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + body)

        running = threading.Thread(target=answer)
        running.start()
        connection = ServerConnection(f"http://127.0.0.1:{door.getsockname()[1]}", None)
        with pytest.raises(ServerUnreachable, match="IncompleteRead"):
            connection("GET", "/v1/about", b"", None)
        running.join()


def test_an_answer_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No timeout ended it, and a withdrawal waited for as long as the server liked."""
    monkeypatch.setattr("understudy.device.outbox.WHOLE_SECONDS", 0.2)
    given_up = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as door:

        def answer() -> None:
            connection, _ = door.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
                for _ in range(99):
                    given_up.wait(0.05)
                    connection.sendall(b"x")

        running = threading.Thread(target=answer)
        running.start()
        connection = ServerConnection(f"http://127.0.0.1:{door.getsockname()[1]}", None)
        start = time.monotonic()
        with pytest.raises(ServerUnreachable, match="did not answer"):
            connection("GET", "/v1/about", b"", None)
        assert time.monotonic() < start + 4
        given_up.set()
        running.join()


class KilledSite:
    """A device, a wire and a server, each a process of its own that may die at any moment."""

    def __init__(self, site: DeviceSite, folder: Path) -> None:
        self.site, self.folder = site, folder
        many = Quotas(open_jobs=1000, jobs_a_day=100_000)
        self.place = Server(folder / "killed-server", quotas=many)
        with socket.create_server(("127.0.0.1", 0)) as door:
            self.port = door.getsockname()[1]
        self.proxy = WireProxy(self.port, folder / "wire")
        self.wire = child(self._forward)
        self.proxy.leave()
        self.server = child(self._serve)
        url = f"http://127.0.0.1:{self.proxy.port}"
        deadline = time.monotonic() + 60
        while True:
            try:
                Outbox(site.home).pair(self.place.pairing_code(url).text())
                return
            except ServerUnreachable:
                assert time.monotonic() < deadline

    def _forward(self) -> None:
        signal.signal(signal.SIGUSR1, lambda *_: self.proxy.cut())
        self.proxy.start()
        while True:
            signal.pause()

    def _serve(self) -> None:
        service = Server(self.place.folder, quotas=self.place.quotas).service
        service.store.release("worker")  # of the server that was killed
        worker = threading.Thread(target=work_forever, args=(service,), daemon=True)
        worker.start()
        config = uvicorn.Config(
            application(service), port=self.port, log_level="critical", lifespan="off"
        )
        uvicorn.Server(config).run()

    def _converse(self, shown: DisclosurePreview) -> None:
        """Send, wait, get the model, delete: again from the beginning where the wire was cut."""
        outbox, digest, refused = Outbox(self.site.home), shown.parcel.digest, False
        while True:
            try:
                if refused:
                    outbox.delete(self.site.attempt(shown))
                    return
                if outbox.attempts(digest, shown.server.public_key)[-1:]:
                    attempt = self.site.attempt(shown)
                    if attempt.deleted is not None:
                        return
                state = outbox.send(digest, shown.code)
                attempt = self.site.attempt(shown)
                while state.state in ("queued", "running"):
                    state = outbox.status(attempt)
                if state.state == "done":
                    model = outbox.model(attempt)[1]
                    write_file(self.folder / f"model-{digest}", model)
                outbox.delete(attempt)
                return
            except ServerRefused:  # killed between the deletion and its row
                refused = True
            except ServerUnreachable:
                continue

    def kill_until_done(self, shown: DisclosurePreview, rng: random.Random, longest: float) -> int:
        """The kills that happened until a job was through."""
        kills = 0
        device = child(lambda: self._converse(shown))
        while True:
            end = time.monotonic() + rng.uniform(0, longest)
            while time.monotonic() < end:
                done, status = os.waitpid(device, os.WNOHANG)
                if done:
                    assert status == 0
                    return kills
                time.sleep(0.002)
            victim = rng.choice(("device", "device", "server", "wire"))
            if victim == "device":
                kill(device)
                device = child(lambda: self._converse(shown))
            elif victim == "server":
                kill(self.server)
                self.server = child(self._serve)
            else:
                os.kill(self.wire, signal.SIGUSR1)
            kills += 1
            check_rows(self.site, self.folder / "wire")

    def close(self) -> None:
        kill(self.wire)
        kill(self.server)


def work_forever(service: JobService) -> None:
    worker = Worker(service, "worker")
    while True:
        if not worker.take_one():
            time.sleep(0.005)


def check_rows(site: DeviceSite, folder: Path) -> int:
    """Every byte on the wire is of a parcel whose row stands in the ledger; the bytes of items."""
    records = [record.read_bytes() for record in folder.iterdir()]  # the wire first, then the rows
    details = [row.data["details"] for row in site.rows("disclosure")]
    rows = {row["parcel"]: row for row in details}
    known = {run: stored_parcel(site.home, run) for run in rows}
    items = {digest: data for one in known.values() for digest, data in one.items.items()}
    submissions = [wire.encode_message(one.submission) for one in known.values()]
    listed = {d for row in rows.values() for part in row["parts"] for d in part["digests"]}
    count = 0
    for record in records:
        head, _, body = record.partition(b"\r\n\r\n")
        put = re.match(rb"PUT /v1/jobs/[0-9a-f]{32}/items/([0-9a-f]{64}) ", head)
        if put is not None:
            digest = put.group(1).decode()
            assert digest in listed
            assert items[digest].startswith(body)
            count += len(body)
        elif head.startswith(b"POST /v1/jobs "):
            assert any(one.startswith(body) for one in submissions)
        elif not head.startswith(b"POST /v1/pair"):
            assert body == b""
    return count


def expected_model(folder: Path, parcel: Parcel) -> bytes:
    """The model of a server that nobody killed."""
    server = Server(folder)
    with server.client() as client:
        device = Device(client, server.token())
        job = device.send(Submitted(parcel.submission, dict(parcel.items)))
        server.work()
        answer = device.call("GET", f"/v1/jobs/{job}/model")
    server.store.close()
    return signed_results.decode_model(answer.content, server.service.keys.public_key)[1]


def check_kills(site: DeviceSite, folder: Path, kills: int, seed: int) -> None:
    site.add(4)
    killed, rng, count, jobs = KilledSite(site, folder), random.Random(seed), 0, 0
    try:
        while count < kills:
            shown = site.show({"dog": "edges", "background": "segment"}, references=3)
            digest = shown.parcel.digest
            count += killed.kill_until_done(shown, rng, longest=0.4)
            jobs += 1
            model = (folder / f"model-{digest}").read_bytes()
            assert model == expected_model(folder / f"whole-{jobs}", shown.parcel)
            assert check_rows(site, folder / "wire") > 0
    finally:
        killed.close()
    assert len(site.rows("disclosure")) == len(site.rows("deletion")) == jobs
    with site.home.settings.open_ledger() as ledger:
        assert ledger.verify() == []
    print(f"{count} kills of device, server and wire over {jobs} jobs")


@pytest.mark.minutes
@pytest.mark.slow
def test_kills_of_device_server_and_wire(site: DeviceSite, tmp_path: Path) -> None:
    check_kills(site, tmp_path, KILLS, seed=1)

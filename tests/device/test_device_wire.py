"""The device over real HTTP: lean, pinned to a certificate, and killed without losing its rows."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from tests.device.device_site import SEGMENTER, DeviceSite
from tests.device.wire_proxy import WireProxy
from tests.server.site import Server
from typer.testing import CliRunner

from understudy.cli.main import app
from understudy.core.errors import RunError
from understudy.device.outbox import Outbox, ServerConnection, ServerUnreachable
from understudy.device.paired_servers import PairedServer
from understudy.server.application import application
from understudy.server.job_service import JobService
from understudy.server.serve import certificate_of


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
        code = server.service.pairing_code(f"http://127.0.0.1:{proxy.port}").text()
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
        assert f"paired with {url}" in device("pair", server.service.pairing_code(url).text())
        said = device("preview", *checks)
        assert f"It would go to 127.0.0.1:{port}, key {server.service.keys.public_key[:16]}" in said
        code = said.split("understudy device send --yes ")[1][:8]
        assert "the job is queued" in device("send", "--yes", code)
        server.work()
        assert "done, 4 of 4 stages" in device("status", "--wait")
        assert "right in 100.0% of 6 labelled photos installed: it is the first" in device("model")
        assert "deleted:" in device("delete", "--code", code)
    said = device("history")
    assert "dog: L2, target, 3 items" in said
    assert "1 disclosure in the ledger" in said
    assert "* classifier of blue, green: server, dog L2, room L0; right in 100.0%" in said
    assert "no model is installed now" in device("model", "--rollback")


def test_another_certificate_gets_nothing(site: DeviceSite, server: Server, tmp_path: Path) -> None:
    certificate, key, fingerprint = certificate_of(tmp_path / "tls", "127.0.0.1")
    with serving(server.service, ssl_certfile=str(certificate), ssl_keyfile=str(key)) as port:
        proxy = WireProxy(port, tmp_path / "wire")
        proxy.start()
        url = f"https://127.0.0.1:{proxy.port}"
        with pytest.raises(RunError, match="another certificate"):
            Outbox(site.home).pair(server.service.pairing_code(url, "0" * 64).text())
        paired = Outbox(site.home).pair(server.service.pairing_code(url, fingerprint).text())
        assert isinstance(paired, PairedServer)
        proxy.close()
    refused, accepted = (path.read_bytes() for path in sorted((tmp_path / "wire").iterdir()))
    assert len(refused) < len(accepted)
    with pytest.raises(ServerUnreachable, match="did not answer"):
        Outbox(site.home).pair(server.service.pairing_code(url, fingerprint).text())


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

"""A server, its client and two devices."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("cryptography")

from tests.server.site import Device, Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "server")
    yield server
    server.store.close()


@pytest.fixture
def device(server: Server) -> Iterator[Device]:
    with server.client() as client:
        yield Device(client, server.token())


@pytest.fixture
def other(server: Server, device: Device) -> Device:
    return Device(device.client, server.token())

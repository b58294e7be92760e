"""A device with painted photos, and a server that it is paired with."""

from collections.abc import Iterator
from pathlib import Path

import pytest

for package in ("fastapi", "cryptography", "onnx"):
    pytest.importorskip(package)

from tests.device.device_site import ColourPipeline, DeviceSite, install_colours  # noqa: E402
from tests.server.site import Server  # noqa: E402


@pytest.fixture(autouse=True, scope="session")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The segmenter of the painted world, as a package from outside: ``colours:red``."""
    site = tmp_path_factory.mktemp("colours")
    install_colours(site)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(site)
        yield


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "server", pipeline=ColourPipeline())
    yield server
    server.store.close()


@pytest.fixture
def site(tmp_path: Path) -> DeviceSite:
    return DeviceSite(tmp_path)


@pytest.fixture
def paired(site: DeviceSite, server: Server) -> Iterator[DeviceSite]:
    with server.client() as client:
        site.pair(server, client)
        yield site

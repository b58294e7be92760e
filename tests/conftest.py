"""What every test may lean on: where real data is, and when a missing piece is a failure.

A test that needs something a bare machine may lack asks for its fixture here and is skipped, with
the reason, where it is missing. Continuous integration turns such a skip into a failure, so that
a test cannot quietly stop running: ``UNDERSTUDY_REQUIRE_DATA=1`` for real data,
``UNDERSTUDY_REQUIRE_POSTGRES=1`` for a PostgreSQL server.
"""

import fcntl
import gc
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import hypothesis
import pytest

from tests.cli.processes import Commands, commands

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED_DATA = REPOSITORY.parent / "shared" / "data"
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")

_ROOM = 2 << 30  # bytes; the suite writes a tenth of that

hypothesis.settings.register_profile("suite", max_examples=50, deadline=None)
hypothesis.settings.load_profile("suite")

Missing = Callable[[str, str], NoReturn]


def pytest_configure() -> None:
    """Tests write into memory where there is room: each commit of a ledger waits for a disk.

    The garbage collector waits until all tests are collected: what is imported stays. Processes
    that tests start elsewhere find the same modules, by whatever path they were named.
    """
    gc.disable()
    if paths := os.environ.get("PYTHONPATH"):
        os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths.split(os.pathsep)))
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > _ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


def pytest_collection_finish() -> None:
    """What collecting has imported stays, so the garbage collector need not look at it again.

    It looks at the rest a tenth as often as usual, which a suite of short tests has memory for.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(7_000, 10, 10)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def users_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that stands for the user's own, where a ledger is that no test names."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("users")
        patch.setenv("XDG_DATA_HOME", str(folder / "session"))
        yield folder


@pytest.fixture(autouse=True)
def own_ledger(
    users_data: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger of its own for each test that names none; fixtures of modules share one."""
    monkeypatch.setenv("XDG_DATA_HOME", str(users_data / f"{abs(hash(request.node.nodeid)):x}"))


@pytest.fixture(scope="session")
def missing() -> Missing:
    """Call it as ``missing("postgres", reason)``: skips, or fails where the piece is required."""

    def skip_or_fail(what: str, reason: str) -> NoReturn:
        if os.environ.get(f"UNDERSTUDY_REQUIRE_{what.upper()}") == "1":
            pytest.fail(f"{reason} (UNDERSTUDY_REQUIRE_{what.upper()}=1)", pytrace=False)
        pytest.skip(reason)

    return skip_or_fail


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data(missing: Missing) -> Path:
    """The folder of real images and small models beside the checkout."""
    if not SHARED_DATA.is_dir():
        missing("data", "needs ../shared/data beside the checkout")
    return SHARED_DATA


@pytest.fixture(scope="session")
def fashion_mnist(missing: Missing) -> Path:
    """The folder of Fashion-MNIST's four idx files, from Debian's package."""
    if not FASHION_MNIST.is_dir():
        missing("data", "needs Debian's package: apt-get install dataset-fashion-mnist")
    return FASHION_MNIST


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Tiny networks are fastest on one thread, and do not wait for another that has no core."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def short_search() -> Iterator[None]:
    """Images are searched for in a few steps: for tests of all but how near they come."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("understudy.backends.embedded.energies.energy_models._STEPS", 20)
        yield


@pytest.fixture(scope="module")
def quick_networks() -> Iterator[None]:
    """The small network for images takes a few steps: for tests of all but what it learns."""
    from understudy.metrics.networks.recipes import IMAGES

    build, recipe = IMAGES["cnn"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(IMAGES, "cnn", (build, replace(recipe, least=20)))
        yield


@pytest.fixture(scope="session")
def tiny_studio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a studio of tiny networks that learnt next to nothing."""
    for package in ("torch", "diffusers", "transformers", "aggdraw", "skimage"):
        pytest.importorskip(package)
    from tests.studio.tiny_studio import train_tiny_studio

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "tiny-studio"
    with Path(f"{folder}.trained").open("a") as trained:  # one studio for all processes
        fcntl.flock(trained, fcntl.LOCK_EX)
        if trained.tell() == 0:
            train_tiny_studio(folder)
            trained.write("yes")
    return folder


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of tiny models in the hub's format; each is built when it is first asked for."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def understudy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """The command line in processes that may be killed, forked from one that imported it once."""
    with commands(tmp_path_factory.mktemp("commands")) as started:
        yield started


@pytest.fixture(scope="session")
def with_studio(understudy: Commands) -> Commands:
    """The same, with the studio's models imported once."""
    return understudy.importing("understudy.backends.embedded.studio.studio_models")


@pytest.fixture(scope="session")
def with_torch(understudy: Commands) -> Commands:
    """The same, with PyTorch imported once."""
    pytest.importorskip("torch", reason="pip install 'understudy[torch]'")
    return understudy.importing("torch")


@pytest.fixture(scope="session")
def with_energies(with_torch: Commands) -> Commands:
    """The same, with the matching decoder's models imported once."""
    return with_torch.importing(
        "understudy.planning.recommendation", "understudy.backends.embedded.energies.energy_models"
    )

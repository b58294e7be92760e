"""The command line in processes of its own, quickly, and killed at a chosen moment.

Importing takes seconds, so one process imports everything once (`serve`) and forks for each
command; what it forks is a whole process that runs `understudy.cli.main.main` and may be killed.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

SOURCE = Path(__file__).resolve().parents[2] / "src"
WHOLE = "from understudy.cli.main import main; main()"
"""The program, as ``python -c`` runs it."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
PRELOADED = (
    *(f"scipy.{part}" for part in ("fft", "linalg", "optimize", "sparse", "special")),
    *("jinja2", "pydantic", "pydantic.type_adapter", "rich.progress", "rich.table", "zoneinfo"),
    *(
        "understudy.run.synthesize",
        "understudy.cli.synthesize_command",
        "understudy.cli.ledger_command",
    ),
    *("understudy.methods.clustering.algorithm", "understudy.backends.embedded.dct"),
    *("understudy.backends.option_reading", "understudy.release.run_file"),
    "understudy.run.select",
)
"""What most commands import: once, before they are forked."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (negative: the signal that killed it) and what it said.

    ``seconds`` are those of a processor: another process takes none of them.
    """

    code: int
    out: str
    err: str
    seconds: float


class Commands:
    """Starts commands: ``commands.run("synthesize", ...)``."""

    def __init__(self, server: subprocess.Popen[str], folder: Path) -> None:
        self._server, self._folder, self._count = server, folder, 0

    def _ask(self, **order: Any) -> Any:
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        assert answer, "the server of commands has died"
        return json.loads(answer)

    def start(self, *args: Any, **how: Any) -> tuple[int, Path]:
        """Start a command; its process and where it writes.

        Args:
            *args: Words of the command line.
            **how: ``env``: more environment; ``die``: (function, call, "before" or "after"): kill
                itself there; ``fault``: the same and the name of one of `FAULTS`, which happens
                there; ``kill_after``: seconds of a processor after which the kernel kills it
                (SIGPROF, whatever it does: how busy the machine is says nothing of when);
                ``wait_at``: (function, FIFO): wait there until the FIFO is closed.
        """
        self._count += 1
        place = self._folder / f"command-{self._count}"
        for name in ("out", "err"):  # there also where the process is killed before it opens them
            Path(f"{place}.{name}").touch()
        process = self._ask(start=[str(arg) for arg in args], place=str(place), **how)
        return int(process), place

    def wait(self, started: tuple[int, Path]) -> Ended:
        """Wait for the end of a started command."""
        process, place = started
        code, seconds = self._ask(wait=process)
        out, err = (Path(f"{place}.{name}").read_text() for name in ("out", "err"))
        return Ended(code, out, err, seconds)

    def importing(self, *modules: str) -> Commands:
        """The same, with these modules imported once for all commands from now on."""
        self._ask(modules=modules)
        return self

    def run(self, *args: Any, **how: Any) -> Ended:
        """Run a command to its end."""
        return self.wait(self.start(*args, **how))


@contextmanager
def commands(folder: Path, preload: str = "understudy.cli.main") -> Iterator[Commands]:
    """A server of commands, until the end of the block."""
    path = os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": path, "COLUMNS": "200"}
    environment["XDG_DATA_HOME"] = str(folder / "home")
    with subprocess.Popen(
        [sys.executable, __file__, preload],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as server:
        yield Commands(server, folder)
        assert server.stdin
        server.stdin.close()


# In the server


def serve(preload: str) -> None:
    """Fork for every order on standard input."""
    for name in (*PRELOADED, *preload.split(",")):
        importlib.import_module(name)
    from PIL import Image

    from understudy.report.rendering import environment

    Image.preinit()  # the readers of formats, which are imported by the first image
    for name in environment().list_templates(extensions=["html", "md"]):
        environment().get_template(name)  # compiled, which takes a second of a run
    gc.freeze()  # the collector of a fork need not look at what all share
    gc.set_threshold(7_000, 10, 10)
    for line in sys.stdin:
        order = json.loads(line)
        answer: Any
        if "modules" in order:
            answer = len([importlib.import_module(name) for name in order["modules"]])
        elif "wait" in order:
            answer = end_of(order["wait"])
        else:
            answer = os.fork()
            if answer == 0:
                obey(order)
        print(json.dumps(answer), flush=True)


def end_of(process: int) -> tuple[int, float]:
    """The exit code of a child, and the seconds that it had of a processor."""
    _, status, usage = os.wait4(process, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime


def obey(order: dict[str, Any]) -> NoReturn:
    """Be the command."""
    from understudy.cli.main import main

    for number, name in (
        (0, "/dev/null"),
        (1, f"{order['place']}.out"),
        (2, f"{order['place']}.err"),
    ):
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.update(order.get("env") or {})
    tempfile.tempdir = None  # it is looked up in the environment again
    if order.get("kill_after"):
        signal.setitimer(signal.ITIMER_PROF, order["kill_after"])  # nothing handles its signal
    if order.get("die"):
        function, call, when = order["die"]
        patch(function, lambda calls: calls == call and kill_oneself(), when)
    if order.get("fault"):
        function, call, when, fault = order["fault"]
        patch(function, lambda calls: calls == call and FAULTS[fault](order["start"]), when)
    if order.get("wait_at"):
        function, fifo = order["wait_at"]
        patch(function, lambda call: call == 1 and Path(fifo).read_bytes(), "before")
    sys.argv = ["understudy", *order["start"]]
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def kill_oneself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fill_the_disk(_: list[str]) -> None:
    """From now on no file may be longer than a page: what writes more gets an error."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def shorten_the_memory(_: list[str]) -> None:
    """From now on the system gives 4 MB more, which is too little for the stack of a thread.

    OpenBLAS asks for a buffer again and again until it gets one, so it gets it before.
    """
    import numpy as np
    import scipy.linalg

    scipy.linalg.eigh(np.eye(300) @ np.eye(300))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + (4 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def lock_the_ledger(words: list[str]) -> None:
    """Another connection holds the ledger for half a second."""
    url = words[words.index("--ledger") + 1]
    other = sqlite3.connect(url, check_same_thread=False, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    threading.Timer(0.5, other.close).start()


FAULTS: dict[str, Callable[[list[str]], object]] = {
    "disk full": fill_the_disk,
    "memory short": shorten_the_memory,
    "SIGTERM": lambda _: os.kill(os.getpid(), signal.SIGTERM),
    "SIGKILL": lambda _: kill_oneself(),
    "ledger locked": lock_the_ledger,
}
"""What may happen in the middle of a command, which is given by its words."""


def patch(name: str, hook: Callable[[int], object], when: str) -> None:
    """Call ``hook`` with the number of the call, before or after ``module:attribute``."""
    module, _, attribute = name.partition(":")
    owner: Any = importlib.import_module(module)
    *path, last = attribute.split(".")
    for part in path:
        owner = getattr(owner, part)
    original, calls = getattr(owner, last), 0

    def hooked(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        number = calls
        if when == "before":
            hook(number)
        result = original(*args, **kwargs)
        if when == "after":
            hook(number)
        return result

    setattr(owner, last, hooked)


if __name__ == "__main__":
    serve(sys.argv[1])

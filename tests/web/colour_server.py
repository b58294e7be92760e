"""`understudy serve` with a pipeline that tells blue from green at once: FOLDER PORT."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.device.device_site import ColourPipeline
from tests.server.site import free_port

from understudy.server import serve
from understudy.server.serve import ServerOptions


class ColourOptions(ServerOptions):
    """In worker processes, too."""

    def pipeline(self) -> ColourPipeline:
        return ColourPipeline()


@contextmanager
def colour_server(folder: Path, repository: Path) -> Iterator[str]:
    """Such a server in a process of its own: the line that it prints for a device to pair."""
    known = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join([str(repository), str(repository / "src"), known])
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.web.colour_server", str(folder), str(free_port())],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert server.stdout
    try:
        yield next(
            found[1] for line in server.stdout if (found := re.search(r"15 minutes: (\S+)", line))
        )
    finally:
        server.terminate()
        server.communicate()


if __name__ == "__main__":
    options = ColourOptions(Path(sys.argv[1]), port=int(sys.argv[2]))
    serve.serve(options, lambda line: print(line, flush=True))

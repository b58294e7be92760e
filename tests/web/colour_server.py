"""`understudy serve` with a pipeline that tells blue from green at once: FOLDER PORT."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.device.device_site import ColourPipeline

from understudy.server import serve
from understudy.server.serve import ServerOptions


class ColourOptions(ServerOptions):
    """In worker processes, too."""

    def pipeline(self) -> ColourPipeline:
        return ColourPipeline()


if __name__ == "__main__":
    options = ColourOptions(Path(sys.argv[1]), port=int(sys.argv[2]))
    serve.serve(options, lambda line: print(line, flush=True))

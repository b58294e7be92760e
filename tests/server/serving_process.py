"""A server in a process of its own, with a pipeline that is done at once: FOLDER PORT WORDS."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.server.site import DigestPipeline

from understudy.server import serve
from understudy.server.serve import ServerOptions


class DigestOptions(ServerOptions):
    """In worker processes, too."""

    def pipeline(self) -> DigestPipeline:
        return DigestPipeline()


if __name__ == "__main__":
    tls = sys.argv[3:] != ["proxied"]
    url = None if tls else f"https://localhost:{int(sys.argv[2]) + 1}"
    options = DigestOptions(Path(sys.argv[1]), port=int(sys.argv[2]), tls=tls, url=url)
    serve.serve(options, lambda line: print(line, flush=True))

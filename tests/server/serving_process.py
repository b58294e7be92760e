"""A server in a process of its own, with a pipeline that is done at once.

FOLDER PORT [PUBLIC_PORT]: with a public port, something in front of the server ends TLS there.
"""

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
    folder, port, *public = sys.argv[1:]
    url = f"https://localhost:{public[0]}" if public else None
    options = DigestOptions(Path(folder), port=int(port), tls=url is None, url=url)
    serve.serve(options, lambda line: print(line, flush=True))

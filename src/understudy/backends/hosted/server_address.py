"""Where a server is, and whether that is this machine.

What is sent to a loopback address stays on this machine, as far as this program can tell: a server,
a tunnel or a proxy there may send it on. A name is looked up once, and the address that it stands
for is what is connected to: no later answer of a name server can lead private images elsewhere.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from understudy.core.errors import BackendError

PUBLIC_URL = "https://api.openai.com/v1"
"""Where the package `openai` goes by itself."""

URL_VARIABLE, KEY_VARIABLE = "OPENAI_BASE_URL", "OPENAI_API_KEY"
"""The environment variables that the package `openai` reads."""

_NO_KEY = "none"  # servers on one's own machine want none, and the package wants some


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The base URL of an API.

    Attributes:
        url: What is connected to; of this machine, with an address in the place of a name.
        host: The host as it was named.
        loopback: Whether it is this machine, by a loopback address.
        key: The key that is sent.
    """

    url: str
    host: str
    loopback: bool
    key: str

    @property
    def public(self) -> bool:
        """Whether it is OpenAI's own."""
        return self.host == urlsplit(PUBLIC_URL).hostname


def server_address(base_url: str | None, key: str | None, *, name: str) -> ServerAddress:
    """The server of a model.

    Args:
        base_url: Its URL; None: that of the environment, else OpenAI's.
        key: The environment variable that holds its key; None: ``OPENAI_API_KEY``, but for a URL
            that does not come from the environment: a key is sent to no server that it is not for.
        name: The model, for messages.

    Raises:
        BackendError: No URL of a server, or a key that is missing.
    """
    url = base_url or os.environ.get(URL_VARIABLE) or PUBLIC_URL
    parts = urlsplit(url)
    try:
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError as error:
        raise BackendError(f"{name}: {url} has a wrong port: {error}") from error
    if parts.scheme not in ("http", "https") or not host or parts.username or parts.query:
        raise BackendError(
            f"{name}: a server is given like http://127.0.0.1:8000/v1, found {url!r} "
            f"(?base_url=, or the environment variable {URL_VARIABLE})"
        )
    literal = _loopback_address(host)
    hostname = f"[{literal or host}]" if ":" in (literal or host) else literal or host
    place = hostname if port is None else f"{hostname}:{port}"
    variable = key or (KEY_VARIABLE if base_url is None else None)
    secret = os.environ.get(variable, "") if variable else ""
    if not secret and (key is not None or host == urlsplit(PUBLIC_URL).hostname):
        raise BackendError(
            f"{name} needs a key: set the environment variable {variable or KEY_VARIABLE}, or name "
            "another one by ?key=NAME; for a server of your own set "
            f"{URL_VARIABLE}=http://127.0.0.1:PORT/v1"
        )
    pinned = f"{parts.scheme}://{place}{parts.path.rstrip('/')}"
    return ServerAddress(pinned, host, literal is not None, secret or _NO_KEY)


def _loopback_address(host: str) -> str | None:
    """The loopback address that a host is; None: it is none.

    Of names, only ``localhost`` may be one, and only where it stands for nothing else.
    """
    try:
        return host if ip_address(host).is_loopback else None
    except ValueError:
        if host.lower() != "localhost":
            return None
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return None
    addresses = sorted({str(entry[4][0]) for entry in entries})  # 127.0.0.1 before ::1
    local = all(ip_address(address).is_loopback for address in addresses)
    return addresses[0] if local and addresses else None

"""The servers that this device is paired with: every one of them stays, each by its own key."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

from understudy.core.errors import RunError
from understudy.device.home_folder import DeviceHome

SERVER_DIGITS = 16
"""Digits of a server's key that stand for it in names of files and in lists."""
_SERVERS = "servers.json"
_LEAST_DIGITS = 8


@dataclass(frozen=True, slots=True)
class PairedServer:
    """A server that this device speaks to.

    Attributes:
        url: ``https://host:port``.
        certificate: SHA-256 of its certificate; None where an authority vouches for it.
    """

    url: str
    public_key: str
    certificate: str | None
    token: str

    @property
    def name(self) -> str:
        """``host:port``."""
        return urlsplit(self.url).netloc

    def described(self) -> str:
        """Its name and the beginning of its key."""
        return f"{self.name}, key {self.public_key[:SERVER_DIGITS]}"


def paired_servers(home: DeviceHome) -> tuple[PairedServer, ...]:
    """All of them, in the order in which they were first paired."""
    return tuple(PairedServer(**stored) for stored in home.read(_SERVERS, []))


def add_server(home: DeviceHome, server: PairedServer) -> None:
    """Store a server; one of the same key takes its new address and token.

    A key is no secret. What a server cannot pretend is its certificate, or else its address.

    Raises:
        RunError: A server of the key was paired, and this one shows another certificate.
    """
    with home.locked():
        servers = {one.public_key: one for one in paired_servers(home)}
        former = servers.get(server.public_key, server)
        if (former.certificate or former.url) != (server.certificate or server.url):
            raise RunError(
                f"this pairing code names the key of {former.described()}, and another certificate "
                f"and address: whoever serves at {server.name} may pretend to be that server. "
                "Nothing was changed. If it was set up anew, remove its entry from "
                f"{home.path(_SERVERS)} and pair again"
            )
        servers[server.public_key] = server
        home.write(_SERVERS, [asdict(one) for one in servers.values()])


def server_named(home: DeviceHome, name: str | None) -> PairedServer:
    """A server by its address, its key or the beginning of that; None for the only one.

    Raises:
        RunError: There is none, or several could be meant.
    """
    servers = paired_servers(home)
    if not servers:
        raise RunError(
            "this device is paired with no server: understudy device pair, with the line "
            "that `understudy serve` printed"
        )
    matches = [one for one in servers if name is None or _is_named(one, name)]
    if len(matches) != 1:
        said = "" if name is None else f", which {name!r} does not"
        raise RunError(
            f"name one of the paired servers by --server{said}: its address, or {_LEAST_DIGITS} "
            f"digits of its key or more. Paired: {'; '.join(one.described() for one in servers)}"
        )
    return matches[0]


def _is_named(server: PairedServer, name: str) -> bool:
    digits = name.lower()
    return name in (server.name, server.url) or (
        len(digits) >= _LEAST_DIGITS and server.public_key.startswith(digits)
    )

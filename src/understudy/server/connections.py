"""The connections of a server: counted from the first byte on, and ended where they are slow.

A connection is a guest until a request on it shows a token that holds. Guests have a few seconds
for the handshake of TLS and for the head of a request. Where there are too many connections, in all
or of one address, the guest that has waited longest is ended for the new one, so that silent
connections, however many, keep no device out. What a device may hold open is bounded, too.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import resource
import socket
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from understudy.core.errors import ConfigError, packages_for

with packages_for("the server", "server"):
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

_log = logging.getLogger(__name__)

_BACKLOG = 512
_SHUTDOWN_SECONDS = 2.0
"""How long the other side may take to say that it has closed."""
_OTHER_FILES = 256
"""Files of the database, of jobs and of workers."""
_PAUSE_SECONDS = 0.1
"""How long nothing is accepted where the machine has no file left for a connection."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What connections may take; the defaults are those of `serve`.

    Attributes:
        handshake: Seconds for the handshake of TLS.
        head: Seconds for the head of a request, from the handshake or the last answer on.
        request: Seconds from there to the end of the answer.
        of_address: Those of one address; of IPv6, of one network of 64 bits.
    """

    handshake: float = 5.0
    head: float = 10.0
    request: float = 300.0
    connections: int = 2048
    of_address: int = 1024
    of_device: int = 16


class OpenConnection:
    """A connection, from its acceptance on.

    Attributes:
        device: The device whose token it has shown; None for a guest.
    """

    def __init__(self, connections: OpenConnections, address: str) -> None:
        self.address = address
        self.device: str | None = None
        self.transport: asyncio.Transport | None = None
        self.task: asyncio.Task[None] | None = None
        self._connections = connections

    def admit(self, device: str) -> bool:
        """Note whose it is; False where the device has as many as it may."""
        if self.device != device and not self._connections.has_room(device):
            return False
        self.device = device
        return True

    def leave(self) -> None:
        """Count it no more; again changes nothing."""
        self._connections.leave(self)

    def end(self) -> None:
        """End it at once, whatever it is at."""
        self.leave()
        if self.transport is not None:
            self.transport.abort()
        elif self.task is not None:
            self.task.cancel()


class OpenConnections:
    """All connections of a server, in the order of their acceptance."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._open: dict[OpenConnection, None] = {}
        self._of_address: Counter[str] = Counter()

    def __contains__(self, connection: object) -> bool:
        return connection in self._open

    def enter(self, peer: str) -> OpenConnection | None:
        """A new connection, for which a guest may have to go; None where none can."""
        address = _network(peer)
        limits = self.limits
        if self._of_address[address] >= limits.of_address and not self._end_guest(address):
            return None
        if len(self._open) >= limits.connections:
            guests = Counter(one.address for one in self._open if one.device is None)
            if not guests or not self._end_guest(guests.most_common(1)[0][0]):
                return None
        connection = OpenConnection(self, address)
        self._open[connection] = None
        self._of_address[address] += 1
        return connection

    def leave(self, connection: OpenConnection) -> None:
        """Count a connection no more; again changes nothing."""
        if connection in self._open:
            del self._open[connection]
            self._of_address[connection.address] -= 1
            self._of_address += Counter()  # forgets addresses at 0

    def has_room(self, device: str) -> bool:
        """Whether a device may have one more."""
        return sum(one.device == device for one in self._open) < self.limits.of_device

    def end_all(self) -> None:
        """End those that have not come as far as a request."""
        for connection in list(self._open):
            if connection.transport is None:
                connection.end()

    def _end_guest(self, address: str) -> bool:
        """End the oldest guest of an address; False where it has none."""
        for connection in self._open:
            if connection.device is None and connection.address == address:
                connection.end()
                return True
        return False


class _TimedProtocol(H11Protocol):
    """HTTP/1.1 with a time for each head and each request."""

    def __init__(self, connection: OpenConnection, limits: ConnectionLimits, **fields: Any) -> None:
        super().__init__(app_state={"connection": connection}, **fields)
        self._connection, self._limits = connection, limits
        self._timers: list[asyncio.TimerHandle] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._connection.transport = transport
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        self._connection.leave()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._expect_head()
        super().on_response_complete()

    def _expect_head(self) -> None:
        self._stop_timers()
        self._timers = [
            self.loop.call_later(self._limits.head, self._head_is_late, self.cycle),
            self.loop.call_later(self._limits.request, self._connection.end),
        ]

    def _head_is_late(self, before: object) -> None:
        if self.cycle is before:
            self._connection.end()

    def _stop_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()


class BoundedServer(uvicorn.Server):
    """uvicorn, which has a time for a connection only after its first answer, with these limits."""

    def __init__(self, config: uvicorn.Config, limits: ConnectionLimits) -> None:
        super().__init__(config)
        self._limits, self._connections = limits, OpenConnections(limits)
        self._tasks: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections of sockets that listen."""
        self.servers = []
        for listener in sockets or []:
            self._start(self._accept(listener))
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, and let requests come to their end."""
        for task in list(self._tasks):
            task.cancel()
        self._connections.end_all()
        await super().shutdown(sockets)

    def _start(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listener)
            except OSError as error:
                _log.error("no connection could be accepted: %s", type(error).__name__)
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            connection = self._connections.enter(peer[0])
            if connection is None:
                accepted.close()
                continue
            connection.task = self._start(self._open(accepted, connection))

    async def _open(self, accepted: socket.socket, connection: OpenConnection) -> None:
        """The handshake of TLS; from there on the protocol has the connection."""
        loop, secure = asyncio.get_running_loop(), self.config.ssl

        def protocol() -> _TimedProtocol:
            return _TimedProtocol(
                connection,
                self._limits,
                config=self.config,
                server_state=self.server_state,
                _loop=loop,
            )

        try:
            await loop.connect_accepted_socket(
                protocol,
                accepted,
                ssl=secure,
                ssl_handshake_timeout=self._limits.handshake if secure else None,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS if secure else None,
            )
        except OSError:  # no TLS, too slow, or gone: what it is does not matter to anybody else
            connection.leave()
        except asyncio.CancelledError:
            connection.leave()
            raise


def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of a host.

    Raises:
        ConfigError: The port is in use, or the host is not this machine.
    """
    try:
        addresses = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise ConfigError(f"--host {host!r} is no address: {error.strerror}") from None
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(addresses):
            sockets.append(socket.create_server(address, family=family, backlog=_BACKLOG))
            sockets[-1].setblocking(False)
    except OSError as error:
        for one in sockets:
            one.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"port {port} of {host} is in use: another server runs there (`understudy serve "
                "pair` gives a pairing code of one that runs). End it, or give another --port"
            ) from None
        raise ConfigError(
            f"this machine cannot listen on port {port} of {host}: "
            f"{os.strerror(error.errno or 0)}. Give another --host or --port"
        ) from None
    return sockets


def allow_files(limits: ConnectionLimits) -> ConnectionLimits:
    """Let this process have a file for each connection; the limits as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = limits.connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < most:
        most = most if hard == resource.RLIM_INFINITY else min(hard, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    connections = max(16, most - _OTHER_FILES)
    return replace(limits, connections=connections, of_address=min(limits.of_address, connections))


def _network(peer: str) -> str:
    """What is counted as one address: of IPv6, 64 bits, which one owner has all of."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if address.version == 6:
        mapped = address.ipv4_mapped
        return str(mapped or ipaddress.ip_network((int(address), 64), strict=False))
    return str(address)

"""A proxy between device and server that writes down every byte of the device, and cuts wires."""

import socket
import threading
from contextlib import suppress
from pathlib import Path


class WireProxy:
    """Forwards connections of a port of its own; each connection's bytes go into a file.

    Args:
        server: Port of the server on this machine.
        folder: Where what the device sends is written, a file a connection.
    """

    def __init__(self, server: int, folder: Path) -> None:
        self._server, self._folder, self._count = server, folder, 0
        folder.mkdir(exist_ok=True)
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        self._open: set[socket.socket] = set()

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close every connection in the middle of whatever it was at."""
        for one in list(self._open):
            _close(one)

    def leave(self) -> None:
        """Let go of the port here; a process that was forked keeps it open."""
        self._door.close()

    def close(self) -> None:
        _close(self._door)
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                device, _ = self._door.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server))
            except OSError:
                _close(device)
                continue
            self._count += 1
            self._open |= {device, server}
            record = self._folder / f"{self._count:06d}"
            record.touch()
            for source, target, file in ((device, server, record), (server, device, None)):
                pump = threading.Thread(target=self._pump, args=(source, target, file), daemon=True)
                pump.start()

    def _pump(self, source: socket.socket, target: socket.socket, file: Path | None) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if file is not None:
                    with file.open("ab") as stream:
                        stream.write(data)
                target.sendall(data)
        _close(source)
        _close(target)
        self._open -= {source, target}


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()

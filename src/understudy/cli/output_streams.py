"""Standard output and standard error that cannot end a command: closed, or without some letters.

What is printed is for people; what counts is in files and in the ledger. So a reader that went away
(``| head -1``), a stream that was closed before the start and a locale without a letter are no
reason to stop a run, before its charge or after it.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import Any, TextIO

_ESCAPES = "understudy-escapes"


class _Unread(io.FileIO):
    """A stream of bytes whose reader may have gone: what is written then is dropped."""

    def write(self, data: Any) -> int:
        """Write, or drop, the bytes."""
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            return len(data)


def prepare_output() -> None:
    """Make standard output and standard error take whatever is written to them."""
    codecs.register_error(_ESCAPES, _escapes)
    sys.stdout, sys.stderr = _prepared(sys.stdout, 1), _prepared(sys.stderr, 2)
    if sys.stdin is None:  # closed: nobody is there to be asked
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115  # for good


def _prepared(stream: TextIO | None, number: int) -> TextIO:
    """The stream; where it was closed, one that nobody reads."""
    if stream is None:
        try:
            os.fstat(number)  # taken by a file that was opened since
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        return open(os.devnull, "w", encoding="utf-8")  # for good
    buffer = getattr(stream, "buffer", None)  # raw where PYTHONUNBUFFERED is set
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(
        buffer, io.BufferedWriter | io.FileIO
    ):
        return stream  # of a test, or of a program that catches what is printed
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(_Unread(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        errors=_ESCAPES,
        line_buffering=stream.line_buffering or number == 2 or isinstance(buffer, io.FileIO),
        write_through=stream.write_through,
    )


def _escapes(error: UnicodeError) -> tuple[str, int]:
    r"""Letters that an encoding lacks, as JSON writes them: ``\u00e9``; so JSON stays JSON."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = (units[i : i + 2].hex() for i in range(0, len(units), 2))
    return "".join(f"\\u{pair}" for pair in pairs), error.end

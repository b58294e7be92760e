"""What readers of files raise where a file is damaged, or is no such file."""

from __future__ import annotations

import json
import lzma
import zipfile
import zlib
from tokenize import TokenError
from typing import Any

ZIP_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    RuntimeError,
)
"""What ``zipfile`` raises on archives that are damaged, or say that they are encrypted."""


def zip_to_read(file: Any) -> zipfile.ZipFile:
    """A zip archive to read. Info-ZIP and macOS store names as UTF-8 without saying so."""
    try:
        return zipfile.ZipFile(file, metadata_encoding="utf-8")
    except UnicodeDecodeError:
        return zipfile.ZipFile(file)


NO_LITERAL = (SyntaxError, TokenError, RecursionError)
"""What NumPy's reader of headers, a parser of Python's literals, raises besides."""

NO_HEADER = (*NO_LITERAL, MemoryError)
"""The same of a header alone, which no sound one makes large."""


def from_json(text: str | bytes) -> Any:
    """The values of a JSON text.

    Raises:
        ValueError: It is none, or nests deeper than Python's reader goes.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it nests too deep") from error

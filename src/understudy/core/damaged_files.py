"""What readers of files raise where a file is damaged, or is no such file."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from tokenize import TokenError

ZIP_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    NotImplementedError,
)
"""What ``zipfile`` raises on damaged archives."""

NO_HEADER = (SyntaxError, TokenError, RecursionError, MemoryError)
"""What NumPy's reader of headers, a parser of Python's literals, raises besides."""

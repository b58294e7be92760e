"""The line that pairs a device with a server, and which addresses a device may speak to."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import StringConstraints, model_validator

from understudy.core.errors import WireError
from understudy.methods.sanitize.wire import PublicKey
from understudy.methods.sanitize.wire_items import Digest, Message, hex_text


def is_private(url: str) -> bool:
    """Whether what is sent to a URL can be read by nobody in between: TLS, or this very machine."""
    address = urlsplit(url)
    if address.scheme == "https":
        return True
    host = address.hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class PairingCode(Message):
    """What the server's owner hands to a device: ``https://host:port#secret.key.certificate``."""

    url: Annotated[str, StringConstraints(pattern=r"^https?://[A-Za-z0-9.:\[\]-]{1,250}$")]
    secret: Annotated[str, hex_text(32)]
    public_key: PublicKey
    certificate: Digest | None = None
    """SHA-256 of the server's certificate, which the device compares; null where a proxy speaks
    TLS for it, whose certificate an authority vouches for."""

    @model_validator(mode="after")
    def _is_private(self) -> Self:
        address = urlsplit(self.url)  # a port that is none is a ValueError, as is a bad host
        if not (address.hostname or "").encode("idna") or address.port == 0:
            raise ValueError("a host is missing, or the port is 0")
        if not is_private(self.url):
            raise ValueError("plain HTTP only reaches a server of the same machine")
        return self

    def text(self) -> str:
        """The code in one line."""
        return f"{self.url}#{self.secret}.{self.public_key}.{self.certificate or ''}"

    @classmethod
    def read(cls, text: str) -> Self:
        """The code of a line.

        Raises:
            WireError: It is not the whole of one.
        """
        url, _, rest = text.strip().partition("#")
        secret, public_key, certificate, *_ = [*rest.split("."), "", "", ""]
        fields = {"url": url, "secret": secret, "public_key": public_key}
        try:
            if url.startswith("http:") and not is_private(url):
                raise WireError(
                    "this pairing code names a server over plain HTTP, which would carry the token "
                    "and all items in clear: let its owner run it with TLS, and ask for another "
                    "code"
                )
            code = cls.model_validate({**fields, "certificate": certificate or None})
        except ValueError:  # pydantic's errors are such, as is that of a URL that is none
            code = None
        if code is None or code.text() != text.strip():
            raise WireError("this is not a whole pairing code: copy the line that `serve` printed")
        return code

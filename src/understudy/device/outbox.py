"""The one door to the server: rows in the ledger first, then bytes, and the same bytes again.

Only this module of the device speaks HTTP. What the owner has agreed to is read from the outbox,
compared with the digest that was shown, and recorded as disclosed, with every digest, before a
connection is opened. Whatever happens then, it counts as disclosed. Every request may be repeated:
a device that was interrupted sends exactly the same bytes again, and the server takes them once.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ssl
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from understudy.core.errors import RunError, RunStopped, WireError
from understudy.core.types import Texts
from understudy.device.home_folder import DeviceHome, write_file
from understudy.device.parcel import (
    AGREED,
    CODE_DIGITS,
    OUTBOX,
    Parcel,
    parcel_report,
    stored_parcel,
)
from understudy.methods.sanitize import signed_results
from understudy.methods.sanitize.wire import (
    MESSAGE_BYTES,
    MODEL_BYTES,
    DeletionReceipt,
    JobState,
    ModelResult,
    PairingCode,
    PairingRequest,
    PairingResult,
    Refusal,
    decode_message,
    encode_message,
    is_private,
)
from understudy.privacy.ledger.ledger import Disclosure

_PAIRING = "server.json"
_ANSWER_BYTES = MESSAGE_BYTES + MODEL_BYTES + 64
_SECONDS = 60.0
CHANGE_SECONDS = 25
"""How long the server is asked to wait for a change."""


class ServerUnreachable(RunStopped):
    """The server did not answer. What was to be sent may be sent again."""


class ServerRefused(RunError):
    """The server answered that it will not do what was asked."""


class Exchange(Protocol):
    """One request to the server and its answer."""

    def __call__(self, method: str, path: str, body: bytes, token: str | None) -> tuple[int, bytes]:
        """Status and body; `ServerUnreachable` where there is no whole answer."""
        ...


@dataclass(frozen=True, slots=True)
class PairedServer:
    """The server that this device speaks to.

    Attributes:
        url: ``https://host:port``.
        public_key: Of its signatures.
        certificate: SHA-256 of its certificate; None where an authority vouches for it.
        token: What the device is known by. Secret.
    """

    url: str
    public_key: str
    certificate: str | None
    token: str


class ServerConnection:
    """An `Exchange` over HTTP, a connection for each request, with no header that need not be.

    Args:
        url: ``https://host:port``.
        certificate: SHA-256 of the certificate that the server must show, before anything is sent;
            None for one that an authority vouches for, which this machine trusts.
    """

    def __init__(self, url: str, certificate: str | None) -> None:
        self._address, self._certificate = urlsplit(url), certificate

    def __call__(self, method: str, path: str, body: bytes, token: str | None) -> tuple[int, bytes]:
        """Status and body of the answer."""
        connection = self._opened()
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            if token is not None:
                connection.putheader("Authorization", f"Bearer {token}")
            if body:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            answer = connection.getresponse()
            data = answer.read(_ANSWER_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()
        if len(data) > _ANSWER_BYTES:
            raise WireError("the server's answer has more bytes than any of the wire")
        return answer.status, data

    def _opened(self) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if not is_private(self._address.geturl()):
            raise RunError(
                "the paired server is reached over plain HTTP, which would carry the token and all "
                "items in clear. Nothing was sent; pair with it over https"
            )
        if self._address.scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=_SECONDS)
        if self._certificate is None:
            context = ssl.create_default_context()  # a proxy's, by the authorities of this machine
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False  # the fingerprint of the pairing code says who it is
            context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=context)
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise RunError(
                "the pairing code names no certificate, and no authority that this machine trusts "
                f"vouches for that of {host} ({error.verify_message}). Nothing was sent"
            ) from error
        except OSError as error:
            raise self._unreachable(error) from error
        if self._certificate is None:
            return connection
        shown = connection.sock.getpeercert(binary_form=True) or b""
        if not hmac.compare_digest(hashlib.sha256(shown).hexdigest(), self._certificate):
            connection.close()
            raise RunError(
                "the server shows another certificate than that of the pairing code: somebody is "
                "in between, or it was set up anew. Nothing was sent; pair again if it is yours"
            )
        return connection

    def _unreachable(self, error: Exception) -> ServerUnreachable:
        return ServerUnreachable(
            f"{self._address.geturl()} did not answer ({type(error).__name__}). Do the same again "
            "later: it goes on where it stopped, with the same bytes"
        )


class Outbox:
    """Everything that a device says to its server.

    Args:
        home: The device.
        exchange: How requests travel; None: HTTP to the paired server.
    """

    def __init__(self, home: DeviceHome, exchange: Exchange | None = None) -> None:
        self._home, self._exchange = home, exchange

    @property
    def server(self) -> PairedServer:
        """The paired server.

        Raises:
            RunError: There is none.
        """
        stored = self._home.read(_PAIRING, None)
        if stored is None:
            raise RunError(
                "this device is paired with no server: understudy device pair CODE, with the line "
                "that `understudy serve` printed"
            )
        return PairedServer(**stored)

    def pair(self, code: str) -> PairedServer:
        """Pair with the server of a code, which holds once.

        Raises:
            WireError: It is no pairing code, or the server's key is not that of the code.
            ServerRefused: The code was used or is too old.
        """
        read = PairingCode.read(code)
        exchange = self._exchange or ServerConnection(read.url, read.certificate)
        body = encode_message(PairingRequest(secret=read.secret))
        result = decode_message(PairingResult, _granted(exchange("POST", "/v1/pair", body, None)))
        if result.public_key != read.public_key:
            raise WireError("the server has another key than the pairing code names: ask its owner")
        server = PairedServer(read.url, read.public_key, read.certificate, result.token)
        self._home.write(_PAIRING, asdict(server))
        return server

    def send(self, digest: str, consent: str) -> JobState:
        """Record what is disclosed, then send a parcel and start its job; again changes nothing.

        Args:
            digest: Of the parcel.
            consent: The digest, or its beginning, as its owner gave it: what was shown.

        Raises:
            RunError: It is the digest of something else, or what was shown has changed since.
            ServerRefused: The server will not take it. It counts as disclosed all the same.
            ServerUnreachable: The server did not answer. Send again.
        """
        if len(consent) < CODE_DIGITS or not digest.startswith(consent):
            raise RunError(f"consent was given to {consent!r}, and this is {digest}: look again")
        parcel, server = stored_parcel(self._home, digest), self.server
        settings = self._home.settings
        details = disclosure_details(parcel, parcel_report(self._home, digest), server)
        what = "; ".join(f"{one['noun']}: {one['kind']}" for one in details["parts"])
        with settings.open_ledger() as ledger:
            ledger.disclose(
                settings.dataset, Disclosure(digest, f"sent to a server: {what}", details)
            )
        self._note_sent(digest)
        state = self._state("POST", "/v1/jobs", encode_message(parcel.submission))
        self._note(digest, state)
        for missing in state.missing:
            item = parcel.items.get(missing)
            if item is None:
                raise WireError("the server asks for an item that is none of this parcel")
            self._state("PUT", f"/v1/jobs/{state.job}/items/{missing}", item)
        if state.state == "open":
            state = self._state("POST", f"/v1/jobs/{state.job}/start")
        self._note(digest, state)
        return state

    def status(self, digest: str, *, wait: bool = False) -> JobState:
        """How far a parcel's job is.

        Args:
            digest: Of the parcel.
            wait: Let the server answer at the next change, or after 25 seconds.
        """
        job = self.job(digest)
        path = f"/v1/jobs/{job['job']}"
        if wait:
            path += f"?revision={job['revision']}&wait={CHANGE_SECONDS}"
        state = self._state("GET", path)
        self._note(digest, state)
        return state

    def model(self, digest: str) -> tuple[ModelResult, bytes]:
        """The model of a parcel's job: signed by the paired server, and for this very request.

        Raises:
            WireError: Signature, digest, job or request are others.
            ServerRefused: There is no model (yet, or any more).
        """
        job, server = self.job(digest)["job"], self.server
        answer = self._call("GET", f"/v1/jobs/{job}/model")
        result, model = signed_results.decode_model(answer, server.public_key)
        request = stored_parcel(self._home, digest).request
        asked = (job, digest, request.training_object, request.label_classes, request.side)
        given = (
            *(result.job, result.submission, result.kind),
            *(result.label_classes, result.side),
        )
        if given != asked:
            raise WireError("the server signed a model of another job: do not use it")
        return result, model

    def delete(self, digest: str) -> DeletionReceipt:
        """Let the server delete everything of a job, and keep its signed receipt.

        Raises:
            WireError: The receipt is not signed by the paired server, or of another job.
        """
        job = self.job(digest)["job"]
        answer = self._call("DELETE", f"/v1/jobs/{job}")
        receipt = decode_message(DeletionReceipt, answer)
        signed_results.check_signature(receipt, self.server.public_key)
        if (receipt.job, receipt.submission) != (job, digest):
            raise WireError("the receipt is of another job: ask again")
        write_file(self._home.path(OUTBOX, digest, "receipt"), answer)
        settings = self._home.settings
        with settings.open_ledger() as ledger:
            ledger.record_deletion(settings.dataset, digest, answer.decode("ascii"))
        self._home.write(f"{OUTBOX}/{digest}/job.json", {**self.job(digest), "state": "deleted"})
        return receipt

    def sent(self) -> Texts:
        """The digests of what was sent, or was about to be, in order."""
        digests: list[str] = self._home.read(AGREED, [])
        return digests

    def job(self, digest: str) -> dict[str, Any]:
        """What is known of a parcel's job: its id, state and revision.

        Raises:
            RunError: It was not sent.
        """
        job: dict[str, Any] | None = self._home.read(f"{OUTBOX}/{digest}/job.json", None)
        if job is None:
            raise RunError("this was not sent yet, or not to its end: understudy device send")
        return job

    def _note_sent(self, digest: str) -> None:
        sent = list(self.sent())
        if digest not in sent:
            self._home.write(AGREED, [*sent, digest])

    def _note(self, digest: str, state: JobState) -> None:
        known = state.model_dump(mode="json", exclude={"missing"})
        self._home.write(f"{OUTBOX}/{digest}/job.json", known)

    def _state(self, method: str, path: str, body: bytes = b"") -> JobState:
        return decode_message(JobState, self._call(method, path, body))

    def _call(self, method: str, path: str, body: bytes = b"") -> bytes:
        server = self.server
        exchange = self._exchange or ServerConnection(server.url, server.certificate)
        return _granted(exchange(method, path, body, server.token))


def _granted(answer: tuple[int, bytes]) -> bytes:
    """The body of an answer that is a success."""
    status, body = answer
    if status == 200:
        return body
    try:
        refusal = decode_message(Refusal, body)
    except WireError:
        raise ServerRefused(f"the server answered {status}, and no message of the wire") from None
    raise ServerRefused(f"the server will not: {refusal.detail} ({refusal.error})")


def disclosure_details(
    parcel: Parcel, report: Mapping[str, Any], server: PairedServer
) -> dict[str, Any]:
    """What a ledger row says of a parcel: every part, every digest, every figure that was shown."""
    figures, manifest = report.get("parts", {}), parcel.submission.manifest
    parts = []
    for number, part in enumerate(parcel.request.parts):
        item = parcel.request.item_of(number)
        digests = [one for one in manifest.digests if manifest.part_of(one) == number]
        entry = {
            "noun": part.noun,
            "part": number,
            "level": part.level,
            "kind": "text" if item is None else item.name,
            "items": len(digests),
            "bytes": parcel.part_bytes(number),
            "digests": digests,
        }
        parts.append(entry | {"measured": figures.get(str(number), {})})
    return {
        "parts": parts,
        "request_bytes": len(encode_message(parcel.submission)),
        "server": server.public_key,
        "consent": parcel.digest,
    }

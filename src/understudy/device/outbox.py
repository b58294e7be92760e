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
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import urlsplit

from understudy.core.errors import RunError, RunStopped, WireError
from understudy.device.consent import Offer, agree, recipient, standing_offer
from understudy.device.disclosures import (
    DisclosureAttempt,
    attempt_run,
    device_disclosures,
    job_of,
    note_deleted,
    note_job,
    note_token,
    receipt_path,
    token_of,
)
from understudy.device.home_folder import DeviceHome, write_file
from understudy.device.paired_servers import PairedServer, add_server, server_named
from understudy.device.parcel import Parcel, consent_digest, parcel_report, stored_parcel
from understudy.methods.sanitize import signed_results
from understudy.methods.sanitize.pairing_code import PairingCode, is_private
from understudy.methods.sanitize.wire import (
    MESSAGE_BYTES,
    MODEL_BYTES,
    DeletionReceipt,
    JobState,
    ModelResult,
    PairingRequest,
    PairingResult,
    Refusal,
    decode_message,
    encode_message,
)
from understudy.privacy.ledger.ledger import Disclosure

_ANSWER_BYTES = MESSAGE_BYTES + MODEL_BYTES + 64
_SECONDS = 60.0
WHOLE_SECONDS = 300.0
"""How long a request and its answer may take, as in `serve`: a withdrawal waits for one."""


class ServerUnreachable(RunStopped):
    """The server did not answer. What was to be sent may be sent again."""


class ServerRefused(RunError):
    """The server answered that it will not do what was asked."""


class Exchange(Protocol):
    """One request to the server and its answer."""

    def __call__(self, method: str, path: str, body: bytes, token: str | None) -> tuple[int, bytes]:
        """Status and body; `ServerUnreachable` where there is no whole answer."""
        ...


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
        # A timeout counts from byte to byte: a server that drips them would never be given up.
        end = threading.Timer(WHOLE_SECONDS, _cut, [connection.sock])
        end.daemon = True
        end.start()
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            if token is not None:
                connection.putheader("Authorization", f"Bearer {token}")
            if body:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            answer = connection.getresponse()
            data = answer.read(_ANSWER_BYTES + 1)
            if answer.length and len(data) <= _ANSWER_BYTES:  # cut off within the answer
                raise http.client.IncompleteRead(data, answer.length)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            end.cancel()
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
        connection = http.client.HTTPConnection(host, port, timeout=_SECONDS)
        if self._address.scheme == "https":
            # By the authorities of this machine, where a proxy speaks TLS for the server.
            context = ssl.create_default_context()
            if self._certificate is not None:
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
        if isinstance(connection, http.client.HTTPSConnection) and self._certificate is not None:
            certificate = connection.sock.getpeercert(binary_form=True) or b""
            if not hmac.compare_digest(hashlib.sha256(certificate).hexdigest(), self._certificate):
                connection.close()
                raise RunError(
                    "the server shows another certificate than that of the pairing code: somebody "
                    "is in between, or it was set up anew. Nothing was sent; pair again if it is "
                    "yours"
                )
        return connection

    def _unreachable(self, error: Exception) -> ServerUnreachable:
        return ServerUnreachable(
            f"{self._address.geturl()} did not answer ({type(error).__name__}): does `understudy "
            "serve` run there, and is this how it is reached? Then do the same again: it goes on "
            "where it stopped, with the same bytes"
        )


def _cut(connection: socket.socket) -> None:
    """End a connection that another thread waits for; below TLS, which would wait as well."""
    with suppress(OSError):  # it is over
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class Outbox:
    """Everything that a device says to its servers.

    ``exchange``: how requests travel; None: HTTP to the server that is meant.
    """

    def __init__(self, home: DeviceHome, exchange: Exchange | None = None) -> None:
        self._home, self._exchange = home, exchange

    def pair(self, code: str) -> PairedServer:
        """Pair with the server of a code, which holds once; the servers before it stay.

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
        add_server(self._home, server)
        return server

    def send(self, digest: str, consent: str, server: str | None = None) -> JobState:
        """Record what is disclosed, then send a parcel and start its job; again changes nothing.

        Every request is made while nobody else can change the folder, and only if the parcel may
        still be sent: once a withdrawal has returned, not a byte of it leaves.

        Args:
            digest: Of the parcel.
            consent: The code that was shown, or more digits of it: of this parcel and this server.
            server: Name of the server; None for the one that the preview was for.

        Raises:
            RunError: It is the code of something else, or consent was withdrawn or has become void.
            ServerRefused: The server will not take it. It counts as disclosed all the same.
            ServerUnreachable: The server did not answer. Send again.
        """
        with self._home.locked():
            target = recipient(self._home, digest, server)
            parcel = stored_parcel(self._home, digest)
            agree(self._home, digest, target, consent)
            self._finish_deletions(parcel, target)
            attempt = self._recorded(parcel, target)
        submission = encode_message(parcel.submission)
        state = self._sent(attempt, target, "POST", "/v1/jobs", submission)
        job = job_of(self._home, attempt)
        if job is not None and job["job"] != state.job:  # the server has forgotten the former one
            with self._home.locked():
                attempt = self._new_attempt(parcel, target, attempt.number + 1)
        note_job(self._home, attempt, state, target.token)
        for missing in state.missing:
            item = parcel.items.get(missing)
            if item is None:
                raise WireError("the server asks for an item that is none of this parcel")
            path = f"/v1/jobs/{state.job}/items/{missing}"
            note_job(
                self._home, attempt, self._sent(attempt, target, "PUT", path, item), target.token
            )
        if state.state == "open":
            state = self._sent(attempt, target, "POST", f"/v1/jobs/{state.job}/start")
        note_job(self._home, attempt, state, target.token)
        if state.state == "deleted":
            with self._home.locked():
                self._finish_deletions(parcel, target)
            raise _taken_no_more()
        return state

    def status(self, attempt: DisclosureAttempt) -> JobState:
        """How far a job is."""
        job = self._job(attempt)
        state = decode_message(JobState, self._asked(attempt, "GET", f"/v1/jobs/{job['job']}"))
        note_job(self._home, attempt, state, job["token"])
        return state

    def model(self, attempt: DisclosureAttempt) -> tuple[ModelResult, bytes]:
        """The model of a job: signed by the server it was sent to, and for this very request.

        Raises:
            WireError: Signature, digest, job or request are others.
            ServerRefused: There is no model (yet, or any more).
        """
        job = self._job(attempt)["job"]
        answer = self._asked(attempt, "GET", f"/v1/jobs/{job}/model")
        result, model = signed_results.decode_model(answer, attempt.server)
        request = stored_parcel(self._home, attempt.parcel).request
        of_request = (
            *(job, attempt.parcel, request.training_object),
            *(request.label_classes, request.side),
        )
        of_answer = (
            *(result.job, result.submission, result.kind),
            *(result.label_classes, result.side),
        )
        if of_answer != of_request:
            raise WireError("the server signed a model of another job: do not use it")
        return result, model

    def delete(self, attempt: DisclosureAttempt) -> DeletionReceipt:
        """Let the server delete everything of a job, and keep its signed receipt.

        The row of this attempt is marked, and no other one: as to be deleted before the server
        hears of it, as deleted once its receipt is here. Again changes nothing.

        Raises:
            WireError: The receipt is not signed by that server, or of another job.
        """
        job = self._job(attempt)["job"]
        with self._home.settings.open_ledger() as ledger:
            ledger.record_end("deletion request", attempt.dataset, attempt.run)
        answer = self._asked(attempt, "DELETE", f"/v1/jobs/{job}")
        receipt = decode_message(DeletionReceipt, answer)
        signed_results.check_signature(receipt, attempt.server)
        if (receipt.job, receipt.submission) != (job, attempt.parcel):
            raise WireError("the receipt is of another job: ask again")
        write_file(receipt_path(self._home, attempt), answer)
        with self._home.settings.open_ledger() as ledger:
            text = answer.decode("ascii")
            ledger.record_end("deletion", attempt.dataset, attempt.run, receipt=text)
        note_deleted(self._home, attempt)
        return receipt

    def attempts(self, parcel: str, server: str) -> list[DisclosureAttempt]:
        """What was sent of a parcel to the server of this key, or was about to be, in order."""
        disclosed = device_disclosures(self._home)
        return [one for one in disclosed if (one.parcel, one.server) == (parcel, server)]

    def _recorded(self, parcel: Parcel, target: PairedServer) -> DisclosureAttempt:
        """The attempt that goes on, or a new one, once the ledger has a row of it.

        Raises:
            ServerRefused: The server has deleted it, so that nothing would leave.
        """
        attempts = self.attempts(parcel.digest, target.public_key)
        if attempts and token_of(self._home, attempts[-1]) in (None, target.token):
            if self._is_over(attempts[-1]):
                raise _taken_no_more()
            if attempts[-1].is_open:
                return attempts[-1]
        return self._new_attempt(parcel, target, len(attempts) + 1)

    def _finish_deletions(self, parcel: Parcel, target: PairedServer) -> None:
        """Get the receipts of what the server has deleted, or was to, when the device stopped."""
        for attempt in self.attempts(parcel.digest, target.public_key):
            if attempt.deleted is None and self._is_over(attempt):
                with suppress(ServerRefused):  # it has forgotten the job, and its receipt with it
                    self.delete(attempt)

    def _is_over(self, attempt: DisclosureAttempt) -> bool:
        """Whether the server has deleted it, or was to."""
        job = job_of(self._home, attempt) or {}
        return attempt.deletion_request is not None or job.get("state") == "deleted"

    def _new_attempt(self, parcel: Parcel, target: PairedServer, number: int) -> DisclosureAttempt:
        settings = self._home.settings
        report = parcel_report(self._home, parcel.digest)
        details = disclosure_details(parcel, report, target)
        details |= {"device": settings.device, "attempt": number}
        what = "; ".join(f"{one['noun']}: {one['kind']}" for one in details["parts"])
        run = attempt_run(parcel.digest, target.public_key, number)
        with settings.open_ledger() as ledger:
            disclosure = Disclosure(run, f"sent to a server: {what}", details)
            ledger.disclose(settings.dataset, disclosure)
        attempt = self.attempts(parcel.digest, target.public_key)[-1]
        note_token(self._home, attempt, target.token)
        return attempt

    def _job(self, attempt: DisclosureAttempt) -> dict[str, Any]:
        job = job_of(self._home, attempt)
        if job is None:
            raise RunError(
                "this was not sent yet, or the server's answer was lost: understudy device send. "
                "Where consent was withdrawn, a server deletes what it has by itself within a day"
            )
        return job

    def _sent(
        self,
        attempt: DisclosureAttempt,
        target: PairedServer,
        method: str,
        path: str,
        body: bytes = b"",
    ) -> JobState:
        """What the server answers to something that leaves by consent, if that still stands."""
        with self._home.locked():
            offer = standing_offer(self._home)
            if offer != Offer(attempt.parcel, target.public_key):
                raise RunError(
                    "consent was withdrawn or has become void while this was sent: nothing more "
                    "leaves. See: understudy device history"
                )
            exchange = self._exchange or ServerConnection(target.url, target.certificate)
            return decode_message(JobState, _granted(exchange(method, path, body, target.token)))

    def _asked(self, attempt: DisclosureAttempt, method: str, path: str) -> bytes:
        """The answer to a request about a job, by the token that it was sent with."""
        server = server_named(self._home, attempt.server)
        exchange = self._exchange or ServerConnection(server.url, server.certificate)
        return _granted(exchange(method, path, b"", self._job(attempt)["token"]))


def _taken_no_more() -> ServerRefused:
    return ServerRefused(
        "the server has deleted this, or was to, and takes it no more: understudy device preview "
        "makes it anew"
    )


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
        digests = list(manifest.of(number))
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
        "parcel": parcel.digest,
        "server": server.public_key,
        "consent": consent_digest(parcel.digest, server.public_key),
    }

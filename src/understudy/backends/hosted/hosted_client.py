"""Requests to one model of an OpenAI-compatible server, by the package `openai`.

Every request is for one image, one text or one caption, so that an answer depends on nothing else.
It is counted before it is sent and its answer is kept; what fails for a while is asked again, and
what fails for good says so. Redirects are not followed: they could lead to another machine.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from operator import attrgetter
from typing import Annotated, Any, TypeVar

import openai

from understudy.backends.hosted.server_address import server_address
from understudy.backends.plugin import PositiveCount, full_name
from understudy.core.damaged_files import from_json
from understudy.core.errors import BackendError, count_words
from understudy.core.option import Option, check_options
from understudy.core.remote_models import Prices, RemoteCalls

T = TypeVar("T", bound=Hashable)
Price = Annotated[float | None, Option("", least=0)]

TOKEN_LIMITS = {"max_tokens": "max_completion_tokens"}
"""The two names of the limit of an answer: local servers know the one, OpenAI's the other."""

_ROUTES = {
    "chat/completions": ("chat.completions", "create", "messages"),
    "embeddings": ("embeddings", "create", "input"),
    "images/generations": ("images", "generate", "prompt"),
    "images/edits": ("images", "edit", "prompt"),
}
"""The package's resource, its method, and what it wants besides the model."""

_HEADERS = frozenset({"host", "user-agent", "accept", "accept-encoding", "connection",
                      "content-type", "content-length", "transfer-encoding"})  # fmt: skip
"""The headers of a request that say nothing of its sender, besides its key."""

_MOST_TOKENS = 1 << 40  # of a reply, as a server counts them
_REPLY_BYTES = 1 << 26  # of one image, 24 MiB in base64, or one text
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 60.0  # seconds before a request is repeated
_FOR_A_WHILE = frozenset({408, 409, 425, 429})  # and every status from 500
_NOT_OFFERED = frozenset({400, 404, 405, 415, 422, 501})
_FILTERED = ("moderation_blocked", "content_policy_violation", "content_filter")


class UnusableReply(ValueError):
    """A reply that is not what was asked for; another one may be. The text is the reason."""


class RefusedReply(ValueError):
    """The model, or a filter of its host, refuses to answer. The text is the reason."""


class RejectedRequest(BackendError):
    """A server takes no such request: it does not have what is asked for."""


@dataclass(frozen=True, slots=True)
class HostedOptions:
    """Options of every hosted model.

    Attributes:
        base_url: The server's; None: that of the environment, ``OPENAI_BASE_URL``.
        key: The environment variable that holds its key; None: ``OPENAI_API_KEY``, for the server
            of the environment alone.
        timeout: Seconds until a request without a whole answer is given up.
        retries: How often a request is repeated that fails for a while.
        parallel: Requests at once.
        price_in: What a million tokens cost that it reads.
        price_out: What a million tokens cost that it writes.
        price_call: What a request costs.
    """

    base_url: str | None = None
    key: str | None = None
    timeout: Annotated[float, Option("", above=0)] = 120.0
    retries: Annotated[int, Option("", least=0)] = 5
    parallel: PositiveCount = 4
    price_in: Price = None
    price_out: Price = None
    price_call: Price = None

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class HostedRequest:
    """One request.

    Attributes:
        route: One of `_ROUTES`.
        body: JSON values.
        optional: Names in the body that a server may not know.
        image: Bytes of a PNG that is sent as a file.
    """

    route: str
    body: Mapping[str, Any]
    optional: frozenset[str] = frozenset()
    image: bytes | None = None


class HostedClient:
    """One model of one server.

    Attributes:
        name: The model's name in this package.
        address: The server.
        calls: What counts requests and keeps answers.
    """

    def __init__(
        self, model: str, options: HostedOptions, *, usual_tokens: tuple[int, int] = (0, 0)
    ) -> None:
        if not model:
            raise BackendError("openai: names no model: write openai:MODEL, as the server calls it")
        self.name = full_name(f"openai:{model}", options)
        self.address = server_address(options.base_url, options.key, name=self.name)
        self.prices = Prices(options.price_in, options.price_out, options.price_call)
        self.calls = RemoteCalls()
        self._model, self._options = model, options
        self._expected_cost = self.prices.cost(1, *usual_tokens)
        self._openai: Any = openai.OpenAI(
            api_key=self.address.key,
            base_url=self.address.url,
            max_retries=0,  # every repetition is counted
            timeout=options.timeout,
            # The environment's proxies are for other machines than this one.
            http_client=openai.DefaultHttpxClient(
                follow_redirects=False,
                trust_env=not self.address.loopback,
                verify=self.address.url.startswith("https:"),  # certificates take long to load
                event_hooks={
                    "request": [] if options.base_url is None else [self._own_headers],
                    "response": [self._bound_reply],
                },
            ),
        )
        weakref.finalize(self, self._openai.close)
        # What a server calls an optional parameter; None: it knows none such.
        self._spelling: dict[str, str | None] = {}
        if self.address.public:
            self._spelling["max_tokens"] = TOKEN_LIMITS["max_tokens"]
        self._tried = False

    def _own_headers(self, request: Any) -> None:
        """Leave out what the environment adds (OPENAI_CUSTOM_HEADERS, OPENAI_ORG_ID, ...).

        It is for the server of the environment, and this is another one.
        """
        for name in set(request.headers) - _HEADERS:
            if not name.startswith("x-stainless-"):  # by which the package knows its own request
                del request.headers[name]
        request.headers["authorization"] = f"Bearer {self.address.key}"

    def _bound_reply(self, response: Any) -> None:
        """Read no more of a reply than any has, and no longer than it is waited for."""
        chunks, timeout = response.iter_bytes, self._options.timeout
        end = time.monotonic() + timeout

        def bounded() -> Iterator[bytes]:
            count = 0
            for chunk in chunks():
                count += len(chunk)
                if count > _REPLY_BYTES:
                    raise UnusableReply(f"more than {_REPLY_BYTES >> 20} MiB")
                if time.monotonic() > end:
                    raise UnusableReply(f"no whole answer within {timeout:g} s")
                yield chunk

        response.iter_bytes = bounded

    def each(self, ask: Callable[[T], bytes], items: Sequence[T]) -> list[bytes]:
        """The answers to all items, in their order; equal items are asked once.

        Some are asked at once. Where one fails, no more are begun and the others' answers are kept.
        """
        answers: dict[T, bytes] = {}
        pending = list(dict.fromkeys(items))
        if pending and not self._tried:  # what the server can do is learnt by one request
            answers[pending[0]] = ask(pending[0])
            self._tried = True
        pending = [item for item in pending if item not in answers]
        with ThreadPoolExecutor(self._options.parallel) as pool:
            futures = [pool.submit(ask, item) for item in pending]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                for future in futures:
                    future.cancel()
        answers |= {item: future.result() for item, future in zip(pending, futures, strict=True)}
        return [answers[item] for item in items]

    def ask(self, request: HostedRequest, read: Callable[[Any], bytes]) -> bytes:
        """What ``read`` makes of the reply to a request, from the kept answers where it had one.

        Raises:
            BackendError: The server does not answer, or not as it should.
            RefusedReply: Raised by ``read``, or the host's filter refused.
        """
        image = None if request.image is None else hashlib.sha256(request.image).hexdigest()
        parts = (self.address.url, self._model, request.route, request.body, image)
        key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        answer = self.calls.answer(key)
        if answer is None:
            answer = self._answer(request, read)
            self.calls.keep(key, answer)
        return answer

    def _answer(self, request: HostedRequest, read: Callable[[Any], bytes]) -> bytes:
        repetitions, reason = 0, ""
        while True:
            pause = min(_FIRST_WAIT * 2.0 ** min(repetitions, 16), _LONGEST_WAIT)
            body = self._body(request)
            self.calls.count(self._expected_cost)
            try:
                reply = self._send(request, body)
                self._count_tokens(reply)
                return read(reply)
            except UnusableReply as error:
                reason = f"gives {error}"
            except openai.APIStatusError as error:
                if error.status_code == 400 and self._learns(request, body, error):
                    continue
                reason, pause = self._status(error, pause)
            except openai.APITimeoutError:
                reason = f"gives no answer within {self._options.timeout:g} s"
            except openai.APIConnectionError as error:
                cause = error.__cause__ or error
                reason = f"cannot be reached ({cause})"
                if isinstance(cause, UnusableReply):
                    reason = f"gives {cause}"
            if repetitions == self._options.retries:
                raise self.failed(
                    f"{reason}, at the last of {count_words(repetitions + 1, 'attempt')}"
                )
            repetitions += 1
            time.sleep(pause)

    def _body(self, request: HostedRequest) -> dict[str, Any]:
        """The body as the server is known to take it."""
        body = dict(request.body)
        for name in request.optional & set(self._spelling):
            value, spelling = body.pop(name, None), self._spelling[name]
            if spelling is not None:
                body[spelling] = value
        return body

    def _send(self, request: HostedRequest, body: Mapping[str, Any]) -> Any:
        """The reply as JSON values."""
        resource, method, argument = _ROUTES[request.route]
        call = getattr(attrgetter(resource)(self._openai).with_raw_response, method)
        rest = {key: value for key, value in body.items() if key != argument}
        arguments = {"model": self._model, argument: body.get(argument, openai.NOT_GIVEN)}
        if method == "edit":
            arguments["image"] = ("image.png", request.image, "image/png")
        if "encoding_format" in rest:  # else the package asks for base64
            arguments["encoding_format"] = rest.pop("encoding_format")
        text = self._in_time(lambda: call(**arguments, extra_body=rest).http_response.text)
        try:
            return from_json(text)
        except ValueError as error:
            raise UnusableReply("an answer that is no JSON") from error

    def _in_time(self, call: Callable[[], str]) -> str:
        """What a call gives; a timeout of its own begins again with every byte.

        The thread of one that is given up ends with the next bytes of its body.
        """
        answer: Future[str] = Future()

        def run() -> None:
            try:
                answer.set_result(call())
            except BaseException as error:  # whoever waits gets it
                answer.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        try:
            return answer.result(self._options.timeout)
        except TimeoutError:
            raise UnusableReply(f"no whole answer within {self._options.timeout:g} s") from None

    def _count_tokens(self, reply: Any) -> None:
        usage = reply.get("usage") if isinstance(reply, dict) else None
        read, written = _tokens(usage, "prompt", "input"), _tokens(usage, "completion", "output")
        self.calls.add(read, written, self.prices.cost(1, read, written))

    def _learns(
        self, request: HostedRequest, body: Mapping[str, Any], error: openai.APIStatusError
    ) -> bool:
        """Whether a 400 is about an optional parameter: from now on it is renamed or left out."""
        for name in sorted(request.optional):
            other = TOKEN_LIMITS.get(name)
            sent = next((one for one in (name, other) if one in body), None)
            if sent is not None and _is_about(error, sent):
                if self._spelling.get(name, name) == sent:
                    self._spelling[name] = other if sent == name else None
                return True
        return False

    def _status(self, error: openai.APIStatusError, pause: float) -> tuple[str, float]:
        """Why a request failed, and how long to wait before it is repeated.

        Raises:
            BackendError: It is not to be repeated.
            RefusedReply: The host's filter refuses it.
        """
        status, said = error.status_code, _said(error)
        if error.code in _FILTERED or "safety system" in said:
            raise RefusedReply(said)
        if status in _FOR_A_WHILE or (status >= 500 and status not in _NOT_OFFERED):
            wait = _retry_after(error.response.headers.get("retry-after"))
            if wait is not None and wait > _LONGEST_WAIT:
                raise self.failed(f"asks to wait for {wait:.0f} s ({status}: {said})")
            return f"answers {status} ({said})", pause if wait is None else wait
        if 300 <= status < 400:
            place = error.response.headers.get("location", "nowhere")
            raise self.failed(
                f"redirects to {place}, which is not followed: give that address itself"
            )
        if status in _NOT_OFFERED:
            raise self.failed(f"answers {status} ({said})", RejectedRequest)
        remedy = {401: ": look at its key", 403: ": look at its key"}
        raise self.failed(f"answers {status} ({said}){remedy.get(status, '')}")

    def failed(self, reason: str, kind: type[BackendError] = BackendError) -> BackendError:
        """The error of a server that gives no answer of use."""
        remedy = self.calls.storage and f". {self.calls.storage}--resume goes on"
        error = kind(f"{self.name}: the server {self.address.host} {reason}{remedy}")
        error.__cause__ = ConnectionError(reason)  # by which a run says what it was charged
        return error


def _tokens(usage: Any, *kinds: str) -> int:
    """A number of tokens of what a server says it used; 0: it says none, or one that is none."""
    counts = [usage.get(f"{kind}_tokens") for kind in kinds] if isinstance(usage, dict) else []
    return next((n for n in counts if isinstance(n, int) and 0 <= n <= _MOST_TOKENS), 0)


def _said(error: openai.APIStatusError) -> str:
    """What the server says of an error, in a line."""
    body: Any = error.body
    words = body.get("message") if isinstance(body, dict) else body
    return " ".join(str(words or error.message).split())[:200]


def _is_about(error: openai.APIStatusError, name: str) -> bool:
    """Whether an error names a parameter as its cause."""
    if error.param is not None:
        return bool(error.param == name)
    return name in re.findall(r"\w+", _said(error))


def _retry_after(header: str | None) -> float | None:
    """Seconds, of a header that holds seconds or a date; None: it holds neither."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None

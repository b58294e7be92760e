"""A server of an OpenAI-compatible API on this machine, for tests: it answers by rules, and fails.

    with StubServer() as server:
        server.faults["rate limit"] = 2        # the next two requests
        load_model(Captioner, f"openai:any?base_url={server.url}")
        server.log                             # every request, in order

Answers depend on the request alone, so that a repeated request has the answer it had. Colour words
mean something to it: an image of "a red square" is red, its caption says so, and the embeddings of
both are near each other.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from understudy.core.types import Images

Fault = Literal[
    "rate limit",  # 429, with Retry-After
    "server error",  # 500
    "time-out",  # no answer
    "truncated",  # half of the JSON
    "fewer",  # an empty list of results
    "base64",  # embeddings as base64, whatever was asked
    "wrong dimension",  # an embedding of one number less
    "refusal",  # the model, or the host's filter, refuses
    "empty",  # an answer of no words
    "key",  # 401
    "redirect",  # 307, to the address `StubServer.elsewhere`
]

PALETTE: Mapping[str, tuple[int, int, int]] = {
    "black": (10, 10, 10),
    "white": (245, 245, 245),
    "red": (220, 30, 30),
    "green": (30, 180, 40),
    "blue": (40, 60, 220),
    "yellow": (235, 220, 40),
    "purple": (150, 40, 170),
    "grey": (127, 127, 127),
}
"""The colours that the server has words for."""

_THINGS = ("square", "wall", "house", "field", "cup", "boat", "cloud", "door")
_WAYS = ("in the morning", "by the window", "seen from far away", "in soft light", "close up")


@dataclass(frozen=True)
class StubRequest:
    """One request that the server was sent.

    Attributes:
        route: Such as ``"/chat/completions"``.
        body: The JSON, or the fields of a form.
        images: What images it carried, decoded.
        key: The bearer's key.
        headers: All of its headers, by their names in lower case.
        fault: How it failed; None: it was answered.
    """

    route: str
    body: Mapping[str, Any]
    images: tuple[Images, ...] = field(repr=False)
    key: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    fault: Fault | None = None


@dataclass
class StubServer:
    """The server, in threads of this process, while it is entered.

    Attributes:
        host: The address that it listens on.
        dim: Length of its embeddings.
        faults: How many of the next requests fail, by the way in which they do.
        spared: Requests that are answered before faults begin.
        refused: Optional parameters that it answers with 400, such as ``"max_tokens"``.
        embeds_images: Whether its embeddings take images.
        elsewhere: Where a redirect points to.
        log: The requests, in order.
    """

    host: str = "127.0.0.1"
    dim: int = 24
    faults: Counter[Fault] = field(default_factory=Counter)
    spared: int = 0
    refused: frozenset[str] = frozenset()
    embeds_images: bool = True
    elsewhere: str = ""
    log: list[StubRequest] = field(default_factory=list)

    def __enter__(self) -> StubServer:
        self._lock, self._end = threading.Lock(), threading.Event()
        self._server = ThreadingHTTPServer((self.host, 0), _handler_of(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The base URL of its API."""
        return f"http://{self.host}:{self._server.server_port}/v1"

    def count(self, route: str) -> int:
        """How many requests a route has had."""
        return sum(one.route == route for one in self.log)

    def answer(self, request: StubRequest) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer to a request; it is logged."""
        with self._lock:
            fault = next((one for one, left in self.faults.items() if left > 0), None)
            if self.spared > 0:
                self.spared, fault = self.spared - 1, None
            if fault is not None:
                self.faults[fault] -= 1
            self.log.append(replace(request, fault=fault))
        if fault == "time-out":
            self._end.wait()
        if (refusal := _status_of(self, request, fault)) is not None:
            return refusal
        reply = _ROUTES[request.route](self, request, fault)
        reply["usage"] = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
        data = json.dumps(reply).encode()
        return 200, {}, data[: len(data) // 2] if fault == "truncated" else data


def _status_of(
    server: StubServer, request: StubRequest, fault: Fault | None
) -> tuple[int, dict[str, str], bytes] | None:
    """An answer that is an error; None where there is none."""
    if fault == "rate limit":
        return 429, {"Retry-After": "0"}, _error("Rate limit reached", "rate_limit_exceeded")
    if fault == "server error":
        return 500, {}, _error("The server had an error", "server_error")
    if fault == "key":
        return 401, {}, _error("Incorrect API key provided", "invalid_api_key")
    if fault == "redirect":
        return 307, {"Location": f"{server.elsewhere}{request.route}"}, b""
    if fault == "refusal" and request.route.startswith("/images"):
        words = "Your request was rejected as a result of our safety system."
        return 400, {}, _error(words, "moderation_blocked")
    if request.route not in _ROUTES:
        return 404, {}, _error(f"There is no {request.route}", "not_found")
    for name in server.refused & set(request.body):
        words = f"Unsupported parameter: '{name}' is not supported with this model."
        return 400, {}, _error(words, "unsupported_parameter", name)
    readable = bool(request.images) and server.embeds_images
    if request.route == "/embeddings" and "input" not in request.body and not readable:
        return 400, {}, _error("Missing required parameter: 'input'.", "missing", "input")
    return None


def _error(message: str, code: str, parameter: str | None = None) -> bytes:
    return json.dumps({"error": {"message": message, "code": code, "param": parameter}}).encode()


def _handler_of(server: StubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # headers and body leave together: apart, the second waits for an ACK

        def do_POST(self) -> None:  # the name that http.server calls
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            key = self.headers.get("Authorization", "").removeprefix("Bearer ")
            body, images = _body_of(self.headers.get("Content-Type", ""), data)
            route = self.path.removeprefix("/v1")
            sent = {name.lower(): value for name, value in self.headers.items()}
            status, headers, reply = server.answer(StubRequest(route, body, images, key, sent))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *args: object) -> None:
            """No lines on standard error."""

        def handle(self) -> None:
            try:
                super().handle()
            except (BrokenPipeError, ConnectionResetError):
                return  # the client did not wait

    return Handler


def _body_of(kind: str, data: bytes) -> tuple[dict[str, Any], tuple[Images, ...]]:
    """The fields of a request, and the images in it."""
    if not kind.startswith("multipart/form-data"):
        body: dict[str, Any] = json.loads(data)
        urls = [
            part["image_url"]["url"]
            for message in body.get("messages", [])
            if isinstance(message["content"], list)
            for part in message["content"]
            if part["type"] == "image_url"
        ]
        return body, tuple(_pixels(base64.b64decode(url.partition(",")[2])) for url in urls)
    form = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + data)
    fields: dict[str, Any] = {}
    images: list[Images] = []
    for part in form.walk():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if not isinstance(name, str) or not isinstance(content, bytes):
            continue
        if part.get_filename():
            images.append(_pixels(content))
        else:
            fields[name] = content.decode()
    return fields, tuple(images)


def _pixels(data: bytes) -> Images:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def _numbers(*parts: object) -> np.random.Generator:
    """A generator that depends on what is given alone."""
    text = json.dumps(parts, sort_keys=True, default=str).encode()
    return np.random.default_rng(list(hashlib.sha256(text).digest()))


def _colours_in(text: str) -> list[str]:
    return [word for word in text.lower().replace(",", " ").split() if word in PALETTE]


def _described(image: Images) -> str:
    """What the server sees in an image: its colour, and where it is brightest."""
    half = len(image) // 2
    where = "above" if image[:half].mean() > image[half:].mean() else "below"
    mean = image.reshape(-1, 3).mean(axis=0)
    colour = min(PALETTE, key=lambda name: float(np.square(mean - PALETTE[name]).sum()))
    return f"a {colour} square, brightest {where}"


def _chat(server: StubServer, request: StubRequest, fault: Fault | None) -> dict[str, Any]:
    if fault == "fewer":
        return {"choices": []}
    message: dict[str, Any] = {"role": "assistant", "refusal": None}
    if fault == "refusal":
        message |= {"content": None, "refusal": "I'm sorry, I can't help with that."}
    elif fault == "empty":
        message["content"] = ""
    elif request.images:
        message["content"] = _described(request.images[0])
    else:
        message["content"] = _written(request.body)
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def _written(body: Mapping[str, Any]) -> str:
    """A caption: of the colours that the question names, or of any."""
    rng = _numbers(body["messages"], body.get("seed"))
    colours = _colours_in(str(body["messages"][-1]["content"])) or list(PALETTE)
    first, second = rng.choice(colours), rng.choice(list(PALETTE))
    thing, way = rng.choice(_THINGS), rng.choice(_WAYS)
    return f"a {first} {thing} with {second} edges {way}"


def _embeddings(server: StubServer, request: StubRequest, fault: Fault | None) -> dict[str, Any]:
    if fault == "fewer":
        return {"data": []}
    if request.images:
        image = request.images[0].astype(np.float64) / 255
        details = np.concatenate([image.mean(axis=(0, 1)), image.mean(axis=(1, 2)).ravel()])
        vector = _words(server, _described(request.images[0]))
        vector += 0.05 * np.resize(details, server.dim)
    else:
        vector = _words(server, str(request.body["input"]))
    values = vector[:-1] if fault == "wrong dimension" else vector
    embedding: object = values.tolist()
    if fault == "base64":
        embedding = base64.b64encode(values.astype("<f4").tobytes()).decode()
    return {"data": [{"index": 0, "embedding": embedding}]}


def _words(server: StubServer, text: str) -> NDArray[np.float64]:
    """The sum of a direction for each word; colours count most."""
    total = np.full(server.dim, 1e-3)
    for word in text.lower().replace(",", " ").split():
        direction = _numbers("word", word).normal(size=server.dim)
        total += direction * (3.0 if word in PALETTE else 0.3)
    return total


def _generated(server: StubServer, request: StubRequest, fault: Fault | None) -> dict[str, Any]:
    if fault in ("fewer", "empty"):
        return {"data": []}
    body = request.body
    rng = _numbers(body["prompt"], body.get("seed"))
    name = (_colours_in(body["prompt"]) or [rng.choice(list(PALETTE))])[0]
    return _draw(np.array(PALETTE[name], dtype=np.float64), body, rng)


def _edited(server: StubServer, request: StubRequest, fault: Fault | None) -> dict[str, Any]:
    if fault in ("fewer", "empty"):
        return {"data": []}
    image, body = request.images[0], request.body
    rng = _numbers(body["prompt"], body.get("seed"), image.tobytes().hex())
    base = np.asarray(Image.fromarray(image).resize(_size(body)), dtype=np.float64)
    return _draw(0.7 * base + 0.3 * rng.integers(0, 256, 3), body, rng)


def _size(body: Mapping[str, Any]) -> tuple[int, int]:
    """Width and height of the image that a request asks for."""
    width, height = str(body.get("size", "32x32")).split("x")
    return int(width), int(height)


def _draw(
    base: NDArray[np.float64], body: Mapping[str, Any], rng: np.random.Generator
) -> dict[str, Any]:
    width, height = _size(body)
    noise = rng.normal(0, 12, size=(height, width, 3))
    pixels = np.clip(np.broadcast_to(base, noise.shape) + noise, 0, 255).astype(np.uint8)
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "PNG")
    return {"data": [{"b64_json": base64.b64encode(data.getvalue()).decode()}]}


_ROUTES: Mapping[str, Callable[[StubServer, StubRequest, Fault | None], dict[str, Any]]] = {
    "/chat/completions": _chat,
    "/embeddings": _embeddings,
    "/images/generations": _generated,
    "/images/edits": _edited,
}

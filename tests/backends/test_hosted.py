"""Models of a server: what is asked of it, what is made of its answers, and what of its faults."""

import base64
import io
import json
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("openai")

from understudy.backends.hosted import hosted_client
from understudy.backends.hosted.server_address import server_address
from understudy.backends.registry import load_encoder, load_model
from understudy.core.errors import BackendError, UnsupportedTask
from understudy.core.ports import Captioner, Generator, TextEncoder, Writer
from understudy.core.remote_models import RemoteCalls, RemoteModel
from understudy.testing.hosted_stub import PALETTE, StubServer

SHAPE = (32, 32, 3)
RED, BLUE = (np.full((1, *SHAPE), PALETTE[name], dtype=np.uint8) for name in ("red", "blue"))


@pytest.fixture
def server():
    with StubServer() as server:
        yield server


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """What is asked again is asked again at once."""
    monkeypatch.setattr(hosted_client, "_FIRST_WAIT", 0.001)


def options(server, **more: Any) -> str:
    named = {"base_url": server.url, "retries": 2, "parallel": 1, **more}
    return "&".join(f"{key}={value}" for key, value in named.items())


def captioner(server, **more: Any):
    return load_model(Captioner, f"openai:see?{options(server, **more)}")


def writer(server, **more: Any):
    return load_model(Writer, f"openai:write?{options(server, **more)}")


def generator(server, **more: Any):
    return load_model(Generator, f"openai:draw?{options(server, size=32, **more)}")


def encoder(server, **more: Any):
    return load_encoder(f"openai:embed?{options(server, **more)}", shape=SHAPE)


ROLES = {
    "captioner": lambda server: captioner(server).caption(RED),
    "encoder": lambda server: encoder(server, dim=24, images="true").encode(RED),
    "generator": lambda server: generator(server).generate(["a red wall"]),
    "edit": lambda server: generator(server).vary(RED, ["a wall"], strength=0.5),
    "writer": lambda server: writer(server).write(1, label="dog"),
}


@pytest.mark.parametrize(
    ("role", "fault"),
    [
        *(("captioner", "rate limit"), ("encoder", "server error"), ("edit", "truncated")),
        *(("generator", "fewer"), ("writer", "server error")),
    ],
)
def test_what_fails_for_a_while_is_asked_again_and_what_does_not_end_stops(server, role, fault):
    server.faults[fault] = 2
    first = ROLES[role](server)
    assert len(server.log) == 3
    assert np.array_equal(np.asarray(first), np.asarray(ROLES[role](server)))
    server.faults[fault], before = 100, len(server.log)
    with pytest.raises(BackendError, match=r"the last of 3 attempts") as stop:
        ROLES[role](server)
    assert len(server.log) - before == 3
    assert isinstance(stop.value.__cause__, OSError)  # by which a run says what it was charged


@pytest.mark.parametrize("role", ROLES)
def test_what_is_wrong_for_good_is_asked_once(server, role):
    server.faults["key"] = 1
    with pytest.raises(BackendError, match=r"401.*look at its key"):
        ROLES[role](server)
    server.faults["redirect"], server.elsewhere = 1, "http://192.0.2.1/v1"
    with pytest.raises(BackendError, match=r"redirects to http://192\.0\.2\.1/v1"):
        ROLES[role](server)
    assert len(server.log) == 2


def test_no_answer_in_time_is_given_up(server):
    server.faults["time-out"] = 100
    with pytest.raises(
        BackendError, match=r"no (whole )?answer within 0.05 s, at the last of 3 attempts"
    ):
        captioner(server, timeout=0.05).caption(RED)


@contextmanager
def endless(status: int, chunk: bytes, pause: float) -> Iterator[str]:
    """A server whose replies never end, or their headers (status 0); its URL."""
    head = f"HTTP/1.1 {status} OK\r\nContent-Length: {10**12}\r\n\r\n".encode()
    head = head if status else b"HTTP/1.1 200 OK\r\nX: "

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(head)
            while not over.wait(pause):
                connection.sendall(chunk)

    def accept() -> None:
        with suppress(OSError):
            while True:
                Thread(target=answer, args=(door.accept()[0],), daemon=True).start()

    over = Event()
    with socket.create_server(("127.0.0.1", 0)) as door:
        Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{door.getsockname()[1]}/v1"
        finally:
            over.set()
            door.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("status", "chunk", "pause", "words"),
    [
        (0, b"x", 0.5, "no whole answer within 2 s"),
        (200, b" ", 0.5, "no whole answer within 2 s"),
        (500, b" ", 0.5, "no whole answer within 2 s"),
        (200, bytes(1 << 20), 0, "more than 64 MiB"),
        (500, bytes(1 << 20), 0, "more than 64 MiB"),
    ],
)
def test_a_reply_that_never_ends_is_given_up(status, chunk, pause, words):
    with endless(status, chunk, pause) as url:
        model = load_model(Captioner, f"openai:see?base_url={url}&timeout=2&retries=0")
        with pytest.raises(BackendError, match=words):
            model.caption(RED)
        for call in (one for one in threading.enumerate() if status and "(run)" in one.name):
            call.join(5)  # it held its connection until the process ended
            assert not call.is_alive()


def test_a_wait_that_is_asked_for_is_waited_and_a_long_one_stops(server, monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr(hosted_client.time, "sleep", waits.append)
    server.faults["rate limit"] = 1
    captioner(server).caption(RED)
    assert waits == [0.0]
    assert hosted_client._retry_after("7") == 7
    assert hosted_client._retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert hosted_client._retry_after("soon") is None
    waits.clear()
    monkeypatch.setattr(hosted_client, "_FIRST_WAIT", 50.0)
    server.faults["server error"] = 3
    captioner(server, retries=3).caption(RED)
    assert waits == [50.0, 60.0, 60.0]
    monkeypatch.setattr(hosted_client, "_LONGEST_WAIT", -1.0)
    server.faults["rate limit"] = 1
    with pytest.raises(BackendError, match="asks to wait for 0 s"):
        captioner(server).caption(RED)


class Rewriting(StubServer):
    """Changes what a chat model answers."""

    content: str | None = None
    tokens: int | None = None
    image: bytes | None = None

    def answer(self, request):
        status, headers, data = super().answer(request)
        reply = json.loads(data)
        if self.content is not None:
            reply["choices"][0]["message"]["content"] = self.content
        if self.image is not None:
            reply["data"][0]["b64_json"] = base64.b64encode(self.image).decode()
        if self.tokens is not None:
            reply["usage"]["prompt_tokens"] = self.tokens
        return status, headers, json.dumps(reply).encode()


@pytest.mark.parametrize(
    "content", ["a \ud800 dog sits there", "a red \x1b[31m dog", "\u202ered dog"]
)
def test_an_answer_of_no_text_is_none(content):
    with Rewriting() as server:
        server.content = content
        with pytest.raises(BackendError, match=r"no caption \(control characters\)"):
            captioner(server).caption(RED)
        with pytest.raises(BackendError, match=r"malformed after .*control characters"):
            writer(server).write(1, label="dog")


def with_large_text(image: Image.Image) -> bytes:
    """A PNG with a note of 64 MiB, in kilobytes."""
    file = io.BytesIO()
    image.save(file, "PNG")
    head, end = file.getvalue()[:-12], file.getvalue()[-12:]
    note = b"zTXt" + b"a\0\0" + zlib.compress(bytes(1 << 26))
    return (
        head + struct.pack(">I", len(note) - 4) + note + struct.pack(">I", zlib.crc32(note)) + end
    )


@pytest.mark.parametrize("kind", ["TIFF", "EPS", "large text"])
def test_what_servers_do_not_draw_is_no_image(kind):
    """Some are for other programs to read, with a memory and holes of their own."""
    image, file = Image.new("RGB", (32, 32), "red"), io.BytesIO()
    if kind != "large text":
        image.save(file, kind)
    data = file.getvalue() or with_large_text(image)
    with Rewriting() as server:
        server.image = data
        with pytest.raises(BackendError, match="gives no image, at the last of"):
            generator(server).generate(["a red wall"])


@pytest.mark.parametrize("tokens", [10**400, -(10**9)], ids=["huge", "negative"])
def test_a_server_that_counts_wildly_neither_ends_nor_lifts_a_cap(tokens):
    with Rewriting() as server:
        server.tokens = tokens
        model = captioner(server, price_call=0.5, price_in=1000)
        model.connect(RemoteCalls(max_cost=1.5))
        model.caption(RED)
        assert model.client.calls.cost >= 0.5


def test_a_refusal_stands_for_no_caption_and_no_image(server):
    for role, words in (("captioner", "refuses to describe"), ("generator", "refuses to draw")):
        server.faults["refusal"], before = 1, len(server.log)
        with pytest.raises(BackendError, match=words):
            ROLES[role](server)
        assert len(server.log) - before == 1
    server.faults["empty"] = 3
    with pytest.raises(BackendError, match="an empty answer, at the last of 3 attempts"):
        captioner(server).caption(RED)


def test_a_writer_asks_anew_and_says_which_captions_stayed(server):
    model = writer(server, tries=2)
    server.faults["refusal"] = 1
    (caption,) = model.write(1, label="dog")
    assert "sorry" not in caption
    server.faults["empty"] = 2
    texts = [f"a red house number {row} by the sea" for row in range(6)]
    assert model.vary(texts[:1], degree=0.5) == texts[:1]
    varied = model.vary(texts, degree=0.5)
    assert all(new != old for new, old in zip(varied, texts, strict=True))
    assert "1 captions stayed as they were" in model.client.calls.words
    server.faults["refusal"] = 100
    with pytest.raises(BackendError, match=r"no variation of 6 of 6 captions .*refusal"):
        model.vary(texts, degree=0.5)


def test_embeddings_are_unit_rows_whatever_their_form_and_of_the_right_length(server):
    model = encoder(server)
    assert isinstance(model, TextEncoder)
    assert model.dim == server.dim
    assert model.takes_images
    plain = model.encode(np.concatenate([RED, BLUE]))
    server.faults["base64"] = 2
    np.testing.assert_allclose(model.encode(np.concatenate([RED, BLUE])), plain, atol=1e-6)
    assert all(one.body["encoding_format"] == "float" for one in server.log)
    texts = model.encode_text(["a red square", "a blue square"])
    assert np.array_equal((plain @ texts.T).argmax(axis=1), [0, 1])
    server.faults["wrong dimension"] = 100
    with pytest.raises(BackendError, match="an embedding of 23 numbers instead of 24"):
        model.encode(RED)
    with pytest.raises(BackendError, match="dim must be 1 or more"):
        encoder(server, dim=0)


def test_a_server_without_embeddings_of_images_is_found_out_once(server):
    server.embeds_images = False
    model = encoder(server)
    assert len(server.log) == 2
    assert not model.takes_images
    assert model.encode_text(["a red wall"]).shape == (1, server.dim)
    with pytest.raises(UnsupportedTask, match="embeddings of images"):
        model.encode(RED)
    assert len(server.log) == 3


def test_parameters_that_a_server_does_not_know_are_renamed_or_left_out_once(server):
    server.refused = frozenset({"max_tokens", "temperature", "top_p"})
    model = writer(server)
    assert len(model.write(3, label="dog")) == 3
    last = server.log[-1].body
    assert "max_completion_tokens" in last
    assert not server.refused & set(last)
    assert len(server.log) == 3 + 3  # each is learnt by one request
    server.refused = frozenset({"seed", "response_format"})
    drawn = generator(server).generate(["a red wall", "a blue wall"])
    assert drawn.shape == (2, *SHAPE)
    assert server.log[-1].body["n"] == 1


def test_images_are_those_that_were_asked_for(server):
    model = generator(server)
    drawn = model.generate(["a red wall", "a blue wall", "a red wall"], seed=3)
    assert drawn[0].mean(axis=(0, 1)).argmax() == 0
    assert drawn[1].mean(axis=(0, 1)).argmax() == 2
    assert not np.array_equal(drawn[0], drawn[2])
    varied = model.vary(drawn, ["a wall"] * 3, strength=0.4, seed=1)
    assert server.count("/images/edits") == 3
    assert "about 40 per cent" in server.log[-1].body["prompt"]
    assert np.array_equal(server.log[-1].images[0], drawn[2])
    assert not np.array_equal(varied, drawn)
    assert np.array_equal(model.vary(drawn, ["a wall"] * 3, strength=0), drawn)


def test_a_variation_may_be_a_caption_that_is_drawn_again(server):
    model = generator(server, captioner="see")
    varied = model.vary(RED, ["a photo"], strength=0.5)
    assert [one.route for one in server.log] == ["/chat/completions", "/images/generations"]
    assert "red square" in server.log[-1].body["prompt"]
    assert varied[0].mean(axis=(0, 1)).argmax() == 0


def test_an_image_of_another_size_or_an_address_is_no_image(server):
    model = generator(server)
    model._size = "16x16"
    with pytest.raises(BackendError, match=r"gives images of 16x16.*\?size=16x16"):
        model.generate(["a wall"])
    with pytest.raises(BackendError, match="address of an image"):
        model._read({"data": [{"url": "http://192.0.2.1/image.png"}]})


def test_equal_questions_are_asked_once_and_failures_keep_the_rest(server, tmp_path):
    calls = RemoteCalls()
    calls.open(tmp_path / "answers.db")
    model = captioner(server)
    model.connect(calls)
    model.caption(np.concatenate([RED, BLUE, RED]))
    assert len(server.log) == 2
    server.faults["key"] = 1
    with pytest.raises(BackendError, match="401"):
        model.caption(RED[:, ::2])
    calls.close()
    again = RemoteCalls()
    again.open(tmp_path / "answers.db")
    other = captioner(server)
    other.connect(again)
    assert other.caption(np.concatenate([BLUE, RED]))[1].startswith("a red square")
    assert len(server.log) == 3
    assert again.calls == 3
    again.close()


def test_caps_stop_before_the_request_that_would_pass_them(server):
    model = captioner(server, price_call=0.5)
    model.connect(RemoteCalls(max_calls=2))
    model.caption(np.concatenate([RED, BLUE]))
    with pytest.raises(BackendError, match=r"--max-calls 2 is used up \(2 requests") as stop:
        model.caption(RED)
    assert len(server.log) == 2
    assert "--resume" not in str(stop.value)  # where no file keeps answers, there is no such run
    model = captioner(server, price_call=0.5, price_in=1000)
    model.connect(RemoteCalls(max_cost=1.5))
    model.caption(RED)  # half, and 20 of a million tokens at a thousand
    assert model.client.calls.cost == pytest.approx(0.52)
    with pytest.raises(BackendError, match=r"--max-cost 1\.5 is used up"):
        model.caption(BLUE)  # 800 tokens are expected of an image
    assert len(server.log) == 3


def test_all_roles_are_remote_models_and_their_names_load_them_again(server):
    for model in (captioner(server), writer(server), generator(server), encoder(server)):
        assert isinstance(model, RemoteModel)
        assert model.loopback
        assert server.host in model.licence


# Where a server is


LOOPBACK = ["http://127.0.0.1:8000/v1", "http://127.9.9.9/v1", "http://[::1]:80/v1"]
ELSEWHERE = [
    "http://192.0.2.1:8000/v1",
    "https://api.example.org/v1",
    "http://0.0.0.0:80/v1",
    "http://127.0.0.1.example.org/v1",
    "http://localhost.example.org/v1",
    "http://2130706433/v1",
    "http://127.1/v1",
]


def test_only_a_loopback_address_is_this_machine():
    for url in LOOPBACK:
        assert server_address(url, None, name="m").loopback, url
    for url in ELSEWHERE:
        assert not server_address(url, None, name="m").loopback, url


def test_localhost_is_looked_up_once_and_only_where_it_is_nothing_else(monkeypatch):
    def answers(*addresses: str):
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0)) for one in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    answers("127.0.0.1")
    local = server_address("http://localhost:8000/v1", None, name="m")
    assert (local.url, local.loopback) == ("http://127.0.0.1:8000/v1", True)
    answers("127.0.0.1", "192.0.2.1")
    assert not server_address("http://localhost:8000/v1", None, name="m").loopback


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "ftp://127.0.0.1/v1", "http://", "http://a:b@127.0.0.1/v1"]
)
def test_what_is_no_server_is_refused(url):
    with pytest.raises(BackendError, match="a server is given like"):
        server_address(url, None, name="m")


def test_a_key_goes_to_its_own_server_alone(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    captioner(server).caption(RED)
    assert server.log[-1].key == "none"
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    load_model(Captioner, "openai:see").caption(RED)
    assert server.log[-1].key == "secret"
    monkeypatch.setenv("MINE", "other")
    captioner(server, key="MINE").caption(RED)
    assert server.log[-1].key == "other"
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(BackendError, match="needs a key: set the environment variable"):
        load_model(Captioner, "openai:see")
    assert "secret" not in captioner(server).name


def test_what_the_environment_adds_goes_to_its_own_server_alone(server, monkeypatch):
    """A gateway's key among its headers went to any server."""
    with monkeypatch.context() as patch:
        captioner(server).caption(RED)  # the package's usual headers
        usual = set(server.log[-1].headers)
        patch.setenv("OPENAI_ORG_ID", "secret")
        patch.setenv("OPENAI_PROJECT_ID", "secret")
        patch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer secret\nx-gateway: secret")
        captioner(server).caption(RED)
        assert "secret" not in " ".join(server.log[-1].headers.values())
        assert set(server.log[-1].headers) == usual
        patch.setenv("OPENAI_BASE_URL", server.url)
        load_model(Captioner, "openai:see").caption(RED)
        assert server.log[-1].headers["x-gateway"] == "secret"


def test_a_proxy_of_the_environment_does_not_see_what_stays_on_this_machine(server, monkeypatch):
    with StubServer() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        captioner(server).caption(RED)
        assert (len(proxy.log), len(server.log)) == (0, 1)


def test_images_are_sent_as_they_are(server):
    captioner(server).caption(BLUE)
    url = server.log[-1].body["messages"][0]["content"][1]["image_url"]["url"]
    assert base64.b64decode(url.partition(",")[2]).startswith(b"\x89PNG")
    assert np.array_equal(server.log[-1].images[0], BLUE[0])

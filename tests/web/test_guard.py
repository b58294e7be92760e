"""Who may ask the studio, and what is refused: other sites and hosts, stolen forms, old links."""

import logging
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.responses import HTMLResponse
from tests.web.web_site import ORIGIN, Site

from understudy.core.errors import ConfigError
from understudy.web.local_guard import ENTRANCE, FORM_HEADER, FORM_TOKEN, POLICY, Sessions
from understudy.web.studio_app import WebOptions, pages


def addresses(site: Site) -> list[tuple[str, str]]:
    """Method and path of every page."""
    content = pages(site.studio, site.options).openapi()["paths"]
    return [(method.upper(), path) for path, methods in content.items() for method in methods]


@pytest.mark.parametrize("device", [False, True])
def test_every_page_needs_the_session(tmp_path: Path, device: bool) -> None:
    site = Site(tmp_path, device=device)
    asked = [one for one in addresses(site) if one[1] not in (ENTRANCE, "/static/{name}")]
    assert len(asked) > (9 if device else 20)
    client = site.new_client()
    for method, path in asked:
        answer = client.request(method, path)
        assert answer.status_code == 403, (method, path)
        assert "open the link" in answer.text


def test_the_link_holds_once_and_leaves_the_address_bar(site: Site) -> None:
    token = site.studio.sessions.token
    first = site.client.get(ENTRANCE, params={"token": token})
    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert re.search(r"HttpOnly.*SameSite=strict", cookie)
    assert "token" not in first.headers["location"]
    assert site.client.get("/").status_code == 200
    again = site.new_client().get(ENTRANCE, params={"token": token})
    assert again.status_code == 403
    assert "set-cookie" not in again.headers
    assert len(site.announced) == 1  # and another link is printed for another browser
    assert site.studio.sessions.token in site.announced[0]


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads that take turns all the time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("eager_threads")
def test_of_browsers_that_take_a_link_at_once_one_is_let_in() -> None:
    with ThreadPoolExecutor(4) as pool:
        for _ in range(2000):
            sessions = Sessions(lambda _: None)
            answers = list(pool.map(sessions.exchange, [sessions.token] * 4))
            assert sum(one is not None for one in answers) == 1


def test_cookies_of_other_servers_of_this_machine_do_no_harm(site: Site) -> None:
    """A browser sends those of every port, in whatever form they were set."""
    site.enter()
    own = "; ".join(f"{name}={value}" for name, value in site.client.cookies.items())
    cookies = {"cookie": f'theme={{"dark": true}}; a b; {own}'}
    assert site.new_client().get("/", headers=cookies).status_code == 200


@pytest.mark.parametrize("token", ["", "x", "ü" * 40, "\0", "a" * 10_000])
def test_another_token_lets_nobody_in(site: Site, token: str) -> None:
    assert site.client.get(ENTRANCE, params={"token": token}).status_code == 403
    assert site.client.get("/").status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8770", "127.0.0.1", "127.0.0.1:80", "localhost:8771", ""]
)
def test_a_foreign_host_is_refused(site: Site, host: str) -> None:
    site.enter()
    for path in ("/", "/static/studio.css", ENTRANCE):
        answer = site.client.get(path, headers={"host": host})
        assert answer.status_code == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:8771", "https://127.0.0.1:8770"]
)
def test_a_foreign_origin_is_refused(site: Site, origin: str) -> None:
    token = site.enter()
    assert site.client.get("/", headers={"origin": origin}).status_code == 403
    posted = site.client.post("/runs/cancel", data={FORM_TOKEN: token}, headers={"origin": origin})
    assert posted.status_code == 403


def test_a_page_without_referrer_sends_its_forms_by_the_browsers_word_alone(site: Site) -> None:
    """No-referrer makes a browser's origin of a form null; where it is from, it says beside it."""
    token = site.enter()
    headers = {"origin": "null", "sec-fetch-site": "same-origin"}
    answer = site.client.post(
        "/runs/cancel", data={FORM_TOKEN: token, "run": "no"}, headers=headers
    )
    assert answer.status_code == 400  # read, and there is no such run
    for site_word in ("cross-site", "same-site", "none"):
        headers["sec-fetch-site"] = site_word
        answer = site.client.post("/runs/cancel", data={FORM_TOKEN: token}, headers=headers)
        assert answer.status_code == 403


def test_an_image_of_another_site_is_not_given(site: Site) -> None:
    site.enter()
    for word in ("cross-site", "same-site"):
        assert site.client.get("/", headers={"sec-fetch-site": word}).status_code == 403


def test_a_form_needs_an_origin_and_the_token_of_its_own_session(site: Site) -> None:
    site.enter()
    stolen = site.enter(other := site.new_client())
    own = site.enter()
    assert stolen != own
    for token in ("", "0" * 64, stolen, "ü", FORM_TOKEN):
        answer = site.post("/runs/cancel", token, run="x")
        assert (answer.status_code, "not of this session" in answer.text) == (403, True)
    twice = f"{FORM_TOKEN}={own}&{FORM_TOKEN}={own}&run=x"
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert site.client.post("/runs/cancel", content=twice, headers=kind).status_code == 403
    assert site.post("/runs/cancel", own, run="x").status_code == 400  # understood
    no_origin = site.new_client()
    no_origin.cookies = site.client.cookies
    del no_origin.headers["origin"]
    assert no_origin.post("/runs/cancel", data={FORM_TOKEN: own}).status_code == 403
    assert other.get("/").status_code == 200


@pytest.mark.parametrize("device", [False, True])
def test_every_change_is_behind_the_token(tmp_path: Path, device: bool) -> None:
    """By the routes themselves, so that one that is added later is tried too."""
    site = Site(tmp_path, device=device)
    site.enter()
    changing = [one for one in addresses(site) if one[0] != "GET"]
    assert len(changing) >= (2 if device else 6)
    for method, path in changing:
        kind = {"content-type": "application/x-www-form-urlencoded"}
        answer = site.client.request(method, path, content=b"run=x", headers=kind)
        assert answer.status_code == 403, path
        assert "not of this session" in answer.text


def test_other_methods_and_bodies_are_refused(site: Site) -> None:
    token = site.enter()
    for method in ("HEAD", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert site.client.request(method, "/").status_code == 405
    headers = {FORM_HEADER: token}
    for content, kind, status in (
        (b"{}", "application/json", 415),
        (b"a" * (2**18 + 1), "application/x-www-form-urlencoded", 413),
        (b"\xff\xfe=1", "application/x-www-form-urlencoded", 400),
        (b"&a=" * 2000, "application/x-www-form-urlencoded", 400),
        (iter([b"a=1"]), "application/x-www-form-urlencoded", 411),  # of no stated length
    ):
        answer = site.client.post(
            "/runs/start", content=content, headers={**headers, "content-type": kind}
        )
        assert answer.status_code == status, kind


def test_every_answer_carries_the_headers(site: Site) -> None:
    site.enter()
    for path in ("/", "/runs", "/nowhere", "/static/studio.js", "/data?source=../x"):
        headers = site.client.get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert "unsafe" not in POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == ("no-cache" if "static" in path else "no-store")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_a_page_that_fails_says_nothing_of_why(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    app = FastAPI()

    def failing() -> HTMLResponse:
        raise ValueError("anna-mueller.png")

    app.add_api_route("/", failing)
    site.app.app = app
    token = site.studio.sessions.token
    session = site.studio.sessions.exchange(token)
    site.client.cookies.set(site.app.cookie, str(session))
    with caplog.at_level(logging.DEBUG):
        answer = site.client.get("/")
    assert answer.status_code == 500
    assert "anna" not in answer.text
    own = [one for one in caplog.records if one.name.startswith("understudy")]
    assert [one.getMessage() for one in own] == ["a page failed: ValueError"]


def test_another_address_needs_a_certificate() -> None:
    with pytest.raises(ConfigError, match="openssl"):
        WebOptions(host="0.0.0.0")
    assert WebOptions(host="::1").address == "http://[::1]:8770"
    assert WebOptions(host="localhost").hosts == {"localhost:8770"}
    assert f"{WebOptions().scheme}://127.0.0.1:8770" == ORIGIN

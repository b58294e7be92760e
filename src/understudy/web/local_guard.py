"""Who may ask a page of the owner's own machine: one browser, by a link that holds once.

Every request passes here before anything else sees it. The host that it names has to be the
studio's own (DNS rebinding), its origin too (other sites, other ports), it needs the cookie that
the link was exchanged for, and whatever changes something needs the session's form token. Every
answer carries a policy that runs no script but the studio's files, and none is stored by a browser.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl

from understudy.core.errors import packages_for

with packages_for("the web studio", "web"):
    from starlette.datastructures import Headers, MutableHeaders
    from starlette.requests import cookie_parser
    from starlette.responses import HTMLResponse, Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger(__name__)

ENTRANCE = "/enter"
"""Where the printed link leads; the one path that another site may navigate to."""
STATIC = "/static/"
"""Style, scripts and their licence: the same for everybody, and shown without a session."""
FORM_TOKEN, FORM_HEADER = "form_token", "x-understudy-form"
"""Field, or header, with the token that every change needs."""
FORM_BYTES = 2**18
"""Bytes of a form at most."""
UPLOAD_BYTES = 2**33
"""Bytes of a dropped file at most."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The content security policy of every page: no inline script, no inline style, no other site."""

_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_READING, _CHANGING = frozenset({"GET"}), frozenset({"POST", "PUT"})
_MOST_SESSIONS = 16


class Sessions:
    """The browsers that were let in, and the link that lets in the next one.

    Args:
        announce: Given the token of a new link whenever the one before was used.
    """

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self._key, self._lock = secrets.token_bytes(32), threading.Lock()
        self._open: dict[str, None] = {}
        self._token = secrets.token_urlsafe(32)

    @property
    def token(self) -> str:
        """The token of the link that holds now."""
        return self._token

    def exchange(self, token: str) -> str | None:
        """A session for a token, which holds no more after that; None: it does not hold."""
        with self._lock:
            if not hmac.compare_digest(token.encode(), self._token.encode()):
                return None
            self._token = secrets.token_urlsafe(32)
        session = secrets.token_urlsafe(32)
        while len(self._open) >= _MOST_SESSIONS:
            del self._open[next(iter(self._open))]
        self._open[session] = None
        self._announce(self._token)
        return session

    def holds(self, session: str) -> bool:
        """Whether a session is open."""
        return session in self._open

    def sign(self, session: str, text: str) -> str:
        """What only this session can know of a text: 64 hexadecimal digits."""
        message = f"{session}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()

    def form_token(self, session: str) -> str:
        """What every form of a session carries."""
        return self.sign(session, FORM_TOKEN)

    def signed(self, session: str, text: str, signature: str) -> bool:
        """Whether a signature is that of a text in this session."""
        expected = self.sign(session, text)
        return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogatepass"))


class LocalGuard:
    """The ASGI middleware; see the module.

    Args:
        app: The pages.
        sessions: The browsers that may see them.
        hosts: Values of the header ``Host`` that are the studio's own, with their ports.
        scheme: ``"http"``, or ``"https"`` with a certificate.
        cookie: Name of the session's cookie.
        page: HTML of a refusal, of its status and a sentence.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        sessions: Sessions,
        hosts: frozenset[str],
        scheme: str,
        cookie: str,
        page: Callable[[int, str], str],
    ) -> None:
        self.app, self.sessions, self.hosts = app, sessions, hosts
        self.scheme, self.cookie, self.page = scheme, cookie, page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("content-security-policy", POLICY)
                stays = "no-cache" if scope["path"].startswith(STATIC) else "no-store"
                headers["cache-control"] = stays
            await send(message)

        refusal = self._objection(scope)
        if refusal is None and scope["method"] in _CHANGING:
            receive, refusal = await self._with_form(scope, receive)
        if refusal is not None:
            await self._refused(*refusal)(scope, receive, guarded)
            return
        try:
            await self.app(scope, receive, guarded)
        except Exception as error:  # its text may hold names of private files
            _log.error("a page failed: %s", type(error).__name__)
            if not begun:
                await self._refused(500, "this page failed; nothing was changed by it")(
                    scope, receive, guarded
                )

    def _refused(self, status: int, reason: str) -> Response:
        return HTMLResponse(self.page(status, reason), status)

    def _objection(self, scope: Scope) -> tuple[int, str] | None:
        """Why a request is refused by its head; sets the session of one that is not."""
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return 421, "this is not the address that the studio was started at"
        sites = headers.getlist("sec-fetch-site")
        own = {f"{self.scheme}://{hosts[0].lower()}"}
        if sites == ["same-origin"]:  # a form of a page without referrer; no script can set it
            own.add("null")
        origins = headers.getlist("origin")
        if any(origin.lower() not in own for origin in origins):
            return 403, "this was asked by another site"
        foreign = any(site not in ("same-origin", "none") for site in sites)
        if foreign and path != ENTRANCE:
            return 403, "this was asked by another site"
        if method not in _READING | _CHANGING:
            return 405, "pages are read, and forms are sent"
        if method in _CHANGING and not origins:
            return 403, "a form has to say which page it is of"
        if path.startswith(STATIC) or path == ENTRANCE:
            return None if method in _READING else (405, "there is nothing to change here")
        session = self._session(headers)
        if session is None:
            return 403, "open the link that the command printed; each holds once"
        scope.setdefault("state", {})["session"] = session
        return None

    def _session(self, headers: Headers) -> str | None:
        # Cookies of other servers of this machine come too, in whatever form they were set.
        session = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        return session if self.sessions.holds(session) else None

    async def _with_form(
        self, scope: Scope, receive: Receive
    ) -> tuple[Receive, tuple[int, str] | None]:
        """A change with its body, if it carries the token of its session; a file carries a header.

        A form is read here, so that no page can forget to look; a file is passed on as it arrives.
        """
        headers, session = Headers(scope=scope), scope["state"]["session"]
        limit = FORM_BYTES if scope["method"] == "POST" else UPLOAD_BYTES
        length = headers.get("content-length")
        if length is None:
            return receive, (411, "a form or a file has to say how long it is")
        if not (length.isascii() and length.isdigit()) or int(length[:20]) > limit:
            return receive, (413, "this is more than a form or a file may have")
        token, wrong = headers.get(FORM_HEADER), (403, "this form is not of this session: reload")
        if scope["method"] == "PUT":
            held = token is not None and self.sessions.signed(session, FORM_TOKEN, token)
            return receive, None if held else wrong
        if headers.get("content-type", "").split(";")[0] != "application/x-www-form-urlencoded":
            return receive, (415, "this is no form of the studio")
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return receive, (400, "the form did not arrive whole")
            body += message.get("body", b"")
            if len(body) > limit:
                return receive, (413, "this is more than a form may have")
            if not message.get("more_body"):
                break
        try:
            pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=1000)
        except (UnicodeDecodeError, ValueError):
            return receive, (400, "this is no form of the studio")
        tokens = [token] if token is not None else [v for k, v in pairs if k == FORM_TOKEN]
        if len(tokens) != 1 or not self.sessions.signed(session, FORM_TOKEN, tokens[0]):
            return receive, wrong
        scope["state"]["form"] = [pair for pair in pairs if pair[0] != FORM_TOKEN]

        async def nothing() -> Mapping[str, object]:
            return {"type": "http.request", "body": b"", "more_body": False}

        return nothing, None  # type: ignore[return-value]  # a message is a mapping

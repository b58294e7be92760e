"""A studio that a real browser looks at: Debian's Chromium, driven by playwright."""

import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn
from tests.web.web_site import Site

from understudy.web.local_guard import ENTRANCE

CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
AXE = Path(os.environ.get("UNDERSTUDY_AXE", ".venv/share/axe.min.js"))
"""axe-core, which `scripts/axe-core.sh` fetches; the project does not hold it."""

PATIENCE = 180_000.0
"""Milliseconds: a command may have to wait for a processor."""

THEMES = ("light", "dark")


class LiveSite(Site):
    """The same on a port, with everything carried out that is asked for."""

    @contextmanager
    def served(self) -> Iterator[str]:
        """The address of the link."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.options = replace(self.options, port=listener.getsockname()[1])
        self.app = self.application()
        config = uvicorn.Config(
            self.app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1
        )
        server, over = uvicorn.Server(config), threading.Event()

        def work() -> None:
            while not over.wait(0.05):
                self.work()

        threads = [
            threading.Thread(target=server.run, args=([listener],), daemon=True),
            threading.Thread(target=work, daemon=True),
        ]
        for thread in threads:
            thread.start()
        yield f"{self.options.address}{ENTRANCE}?token={self.studio.sessions.token}"
        over.set()
        server.should_exit = True
        for thread in threads:
            thread.join()
        listener.close()


def violations(page: Any) -> list[str]:
    """What axe-core finds serious or critical on a page."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("async () => (await axe.run(document)).violations")
    return [
        json.dumps([one["id"], one["help"], [node["html"][:200] for node in one["nodes"][:3]]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def overflow(page: Any) -> int:
    """By how many pixels a page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def tab_to(page: Any, name: str, most: int = 150) -> None:
    """Press Tab until what is called so has the focus."""
    called = (
        "() => { const e = document.activeElement; const l = e.labels && e.labels[0];"
        "return e.getAttribute('aria-label') || (l ? l.textContent : e.textContent) || ''; }"
    )
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate(called).strip().startswith(name):
            return
    raise AssertionError(f"no Tab leads to {name!r} at {page.url}")


def go_by_keyboard(page: Any, name: str, key: str = "Enter") -> None:
    """Follow a link, or press a button, without a mouse."""
    tab_to(page, name)
    page.keyboard.press(key)


class Watched:
    """A browser's window, in which nothing may be blocked and no script may fail."""

    def __init__(self, browser: Any, **looks: Any) -> None:
        self.context = browser.new_context(**looks)
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.faults: list[str] = []
        self.asked: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", self._said)
        self.page.on("dialog", lambda dialog: self.faults.append(dialog.message))

    def _said(self, message: Any) -> None:
        if message.type == "error":
            self.faults.append(f"{message.text} at {message.location.get('url')}")

"""A studio in this process, a browser's requests to it, and a small dataset of hostile names."""

import html
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from starlette.testclient import TestClient
from tests.cli.processes import Commands

from understudy.web.child_jobs import ChildJob
from understudy.web.local_guard import ENTRANCE, FORM_TOKEN, LocalGuard
from understudy.web.studio import WebStudio
from understudy.web.studio_app import WebOptions, open_studio, studio_application

HOSTILE_CLASS = "<img src=x onerror=alert(1)>"
HOSTILE_FILE = "two\nlines <script>alert(2).png"
ORIGIN = "http://127.0.0.1:8770"
CHARGE = {
    "source": "data/photos",
    "epsilon": "2",
    "out": "run 1",
    "count": "130",
    "skip_bad": "on",
    "size": "8",
    "channels": "1",
    "encoder": "embedded:dct",
}
"""A charge of the small dataset."""


def hidden_fields(page: str) -> dict[str, str]:
    """What the forms of a page send without being typed."""
    found = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page)
    return {name: html.unescape(value) for name, value in found}


def draw_dataset(
    folder: Path, each: int = 30, classes: tuple[str, ...] = ("boots", "shirts"), seed: int = 0
) -> Path:
    """Grey images of 8 x 8 pixels in class folders; one of them is no image, by a hostile name."""
    rng = np.random.default_rng(seed)
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for row in range(each):
            image = np.clip(rng.normal(60 + 100 * label, 20, (8, 8)), 0, 255).astype(np.uint8)
            Image.fromarray(image).save(folder / name / f"{row}.png")
    return folder


@dataclass
class Site:
    """One studio over one folder.

    Attributes:
        commands: Carries out what is asked for, with everything imported once; None: nothing does.
        roots: More folders that the pages may name.
    """

    folder: Path
    commands: Commands | None = None
    device: bool = False
    roots: tuple[Path, ...] = ()
    announced: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root = self.folder / "data"
        self.root.mkdir(exist_ok=True)
        self.options = WebOptions(
            (*self.roots, self.root),
            ledger=str(self.folder / "ledger.db"),
            folder=self.folder / "web",
            device=self.folder / "device" if self.device else None,
        )
        self.studio: WebStudio = open_studio(self.options, self.announced.append)
        self.app = self.application()
        self.client = self.new_client()

    def application(self) -> LocalGuard:
        return studio_application(self.studio, self.options)

    def new_client(self, **headers: str) -> TestClient:
        return TestClient(
            self.app,
            base_url=ORIGIN,
            headers={"origin": ORIGIN, **headers},
            follow_redirects=False,
            raise_server_exceptions=False,
        )

    def enter(self, client: TestClient | None = None) -> str:
        """Let a browser in; its form token."""
        client = client or self.client
        token = self.studio.sessions.token
        answer = client.get(ENTRANCE, params={"token": token})
        assert answer.status_code == 303, answer.text
        page = client.get("/")
        found = re.search(r'name="form-token" content="([0-9a-f]{64})"', page.text)
        assert found
        return found[1]

    def post(self, path: str, token: str, **values: Any) -> Any:
        return self.client.post(path, data={FORM_TOKEN: token, **values})

    def get(self, path: str, **query: Any) -> Any:
        return self.client.get(path, params=query)

    def work(self) -> None:
        """Carry out everything that was asked for, in its order."""
        assert self.commands is not None
        for job in [one for one in self.studio.jobs.all() if not self._is_over(one)]:
            place = self.studio.jobs.folder / job.id
            ended = self.commands.run(*job.words)
            (place / "out").write_text(ended.out, encoding="utf-8")
            (place / "err").write_text(ended.err, encoding="utf-8")
            (place / "begun").touch()
            (place / "end.json").write_text(json.dumps({"code": ended.code}))

    def _is_over(self, job: ChildJob) -> bool:
        return self.studio.jobs.report(job).is_over


Story = tuple[Site, str]
"""A site with a release, and the token of its forms."""

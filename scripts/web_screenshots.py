"""Draws every page of the studio: ``python -m scripts.web_screenshots OUT``.

Four kinds of public clothes are planned and released twice on one site; drawn photos of a home are
searched, sent to a server on this machine and answered with a model on a device's. Chromium looks
at every page in light and dark, wide and narrow. Pictures are reduced to 128 colours.
``docs/images`` holds the wide light ones (`docs/web-pages.md`) and one dark one.
"""

from __future__ import annotations

import argparse
import io
import re
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright
from tests.cli.processes import Commands, commands
from tests.conftest import FASHION_MNIST, REPOSITORY
from tests.web.browser_site import CHROMIUM, LiveSite
from tests.web.colour_server import colour_server

from understudy.data import open_source
from understudy.run import books

KINDS, EACH = 4, 300
LOOKS = {"light": 1000, "dark": 1000, "narrow": 390}
CHARGE = "source=data%2Fclothes&epsilon=2&out=second&size=28&channels=1&encoder=embedded:dct"
STUDIO = {
    "home": "/",
    "data": "/data?source=data%2Fclothes",
    "plan": "/plan?source=data%2Fclothes&stop=5",
    "charge": f"/charge?{CHARGE}",
    "run": "/run?run=data%2Frelease",
    "result": "/result?run=data%2Frelease",
    "runs": "/runs",
    "compare": "/compare?run=data%2Frelease&run=data%2Fmore",
    "ledger": "/ledger",
    "verify": "/verify?file=data%2Frelease",
}
DEVICE = {
    "device": "/",
    "device-correct": "/correct?number=2",
    "device-request": "/request?part=dog",
    "device-preview": "/preview",
    "device-history": "/history",
    "device-model": "/model",
}
HEIGHT, HEIGHTS = 1000, {"device-request": 1300, "result": 1150}  # pixels of a page that are stored


def draw(source: str, folder: Path, most: int, labelled: bool = True) -> None:
    """The first images of a public source as files."""
    data, counts = open_source(source), dict[int, int]()
    for batch in data.batches(256):
        for label, image in zip(batch.labels.tolist(), batch.values, strict=True):
            counts[label] = counts.get(label, 0) + 1
            if counts[label] <= most and label < KINDS:
                place = folder / data.classes[label].replace("/", " ") if labelled else folder
                place.mkdir(parents=True, exist_ok=True)
                pixels = image[:, :, 0] if image.shape[2] == 1 else image
                Image.fromarray(pixels).save(place / f"{sum(counts.values())}.png")


def look(site: LiveSite, browser: Any, pages: dict[str, str], out: Path) -> None:
    """Every page in every look, once the commands that it asks for are over."""
    with site.served() as link:
        for name, width in LOOKS.items():
            theme = "dark" if name == "dark" else "light"
            size = {"width": width, "height": 800}
            context = browser.new_context(color_scheme=theme, viewport=size)
            page = context.new_page()
            page.set_default_timeout(300_000)
            page.goto(link)
            for path in pages.values():
                page.goto(site.options.address + path)
                wait(page)
            for key, path in pages.items():
                page.goto(site.options.address + path)
                wait(page)
                page.screenshot(path=out / "page.png", full_page=True)
                with Image.open(out / "page.png") as image:
                    height = min(image.height, HEIGHTS.get(key, HEIGHT))
                    cut = image.convert("RGB").crop((0, 0, image.width, height))
                    small = cut.quantize(128, dither=Image.Dither.NONE)
                    data = io.BytesIO()
                    small.save(data, "PNG", optimize=True)
                    (out / f"web-{key}-{name}.png").write_bytes(data.getvalue())
            link = f"{site.options.address}/enter?token={site.studio.sessions.token}"
            context.close()
    (out / "page.png").unlink()


def wait(page: Any) -> None:
    page.locator("[data-events]:not([data-events=''])").first.wait_for(state="detached")


def prepare_studio(site: LiveSite, run: Commands) -> dict[str, str]:
    """Clothes, and two releases of them on one ledger, one evaluated: the pages of all that."""
    clothes, ledger = site.root / "clothes", site.folder / "ledger.db"
    draw(str(FASHION_MNIST), clothes, EACH)
    for epsilon, name in ((2, "release"), (1, "more")):
        words = ["synthesize", clothes, f"--epsilon={epsilon}", "--hold-out=10%", "--yes"]
        words += ["--encoder=embedded:dct", f"--ledger={ledger}"]
        done(run, *words, f"--out={site.root / name}")
    done(run, "evaluate", site.root / "release", f"--real={clothes}")
    (account,) = books.overview(str(ledger))
    return STUDIO | {"timeline": f"/ledger?dataset={account.dataset.id}"}


def prepare_device(site: LiveSite, run: Commands, pairing: str) -> None:
    """Photos of a drawn home, what a server was sent of them, its model, and what it may get."""
    draw("playhouse:pet-status?homes=1&per_home=8", site.root / "photos", 2, labelled=False)
    draw("playhouse:pet-status?homes=2&per_home=40", site.root / "labelled", 8)
    home = f"--home={site.folder / 'device'}"
    words = ["--target=dog", "--background=bedroom", "--classes=eating,sleeping", "--references=4"]
    levels = ["--level=dog=edges", "--level=background=segment"]
    done(run, "device", "add", home, f"--ledger={site.folder / 'ledger.db'}", site.root / "photos")
    done(run, "device", "add", home, "--labelled", site.root / "labelled")
    done(run, "device", "request", home, *words, *levels)
    done(run, "device", "segment", home, "--hide=2=A8,B8", "--belongs=3:dog=D5")
    done(run, "device", "pair", home, "--", pairing)
    shown = done(run, "device", "preview", home, "--no-measure")
    code = re.search(r"Code of exactly this: (\w+)", shown)
    assert code
    done(run, "device", "send", home, f"--yes={code[1]}")
    done(run, "device", "status", home, "--wait")
    done(run, "device", "model", home)
    done(run, "device", "preview", home, "--no-measure")


def done(run: Commands, *words: object) -> str:
    """What a command prints, which must do what it is asked for."""
    ended = run.run(*words)
    assert not ended.code, ended.err
    return ended.out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", action="store_true", help="the device's pages alone")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        commands(Path(name)) as run,
        sync_playwright() as playwright,
    ):
        folder = Path(name)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        if not arguments.device:
            (folder / "studio").mkdir()
            site = LiveSite(folder / "studio", run)
            look(site, browser, prepare_studio(site, run), arguments.out)
        (folder / "household").mkdir()
        site = LiveSite(folder / "household", run, device=True)
        with colour_server(folder / "server", REPOSITORY) as pairing:
            prepare_device(site, run, pairing)
            look(site, browser, DEVICE, arguments.out)
        browser.close()


if __name__ == "__main__":
    main()

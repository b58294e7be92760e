"""The device's pages: photos, what may leave of them, consent, what left, and the model back.

A page shows what the device's folder says; every button is a command of ``understudy device``, in a
process of its own. Nothing leaves but by ``device send`` with the code that was typed in.
"""

from __future__ import annotations

import io
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from fastapi import Query
from numpy.typing import NDArray
from PIL import Image
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from understudy.core.errors import ConfigError, InputError, RunError
from understudy.device.consent import standing_offer
from understudy.device.corrections import COLUMNS, Correction
from understudy.device.disclosures import (
    DisclosureAttempt,
    device_disclosures,
    job_of,
    receipt_path,
)
from understudy.device.home_folder import DeviceHome
from understudy.device.installed_models import model_index
from understudy.device.paired_servers import paired_servers, server_named
from understudy.device.parcel import CODE_DIGITS, consent_digest, parcel_report
from understudy.device.photo_store import references, stored_photos
from understudy.device.preferences import (
    BACKGROUND,
    BACKGROUND_LEVELS,
    OBJECT_LEVELS,
    Preferences,
    request_words,
    stored_preferences,
)
from understudy.device.review import LevelPicture, ReviewedPhotos, level_picture, reviewed_photos
from understudy.web.child_jobs import ChildJob
from understudy.web.data_pages import PlaceName
from understudy.web.photo_outlines import ShownPhoto, marked_cells, photo_cells, shown_photo
from understudy.web.studio import (
    StudioPages,
    WebStudio,
    command_line_of,
    form_of,
    moved,
    needed,
    store_upload,
)

_PHOTO_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
_QUEUE = "device"
_OBJECT_LEVELS = tuple(name for name in OBJECT_LEVELS if ":" not in name)
_IMPERSONAL_LEVELS = tuple(name for name in _OBJECT_LEVELS if name != "pose")

PhotoNumber = Annotated[int, Query(ge=1, le=100_000)]
RequestPart = Annotated[int, Query(ge=0, le=100)]


@dataclass(frozen=True, slots=True)
class PartLevels:
    """A part of the request, and what may leave of it.

    Attributes:
        levels: Names of what may leave.
        examples: What would leave of a photo at these levels, where the objects were searched.
        level: What may leave as things are.
    """

    number: int
    noun: str
    levels: tuple[str, ...]
    examples: Mapping[str, LevelPicture]
    level: str


@dataclass(frozen=True, slots=True)
class Disclosed:
    """A disclosure as the history has it."""

    attempt: DisclosureAttempt
    recipient: str
    state: str
    receipt: bool


class DevicePages(StudioPages):
    """The pages of one device."""

    addresses: ClassVar[Mapping[str, str]] = {
        "GET /": "photos",
        "GET /photo": "photo",
        "GET /correct": "correct",
        "GET /request": "request",
        "GET /level": "level",
        "GET /preview": "preview",
        "GET /preview/sheet": "sheet",
        "GET /history": "history",
        "GET /model": "model",
        "POST /do": "do",
        "PUT /upload": "upload",
    }

    def __init__(self, studio: WebStudio) -> None:
        super().__init__(studio)
        self.home = DeviceHome.of(studio.home)

    def photos(self, request: Request) -> Response:
        """The photos with the objects that were found, each to be clicked or left out."""
        stored, reviewed = stored_photos(self.home), self._reviewed()
        labels = Counter(one.label for one in stored if one.label is not None)
        count = sum(one.label is None for one in stored)
        photos = [
            ShownPhoto(number) if reviewed is None else shown_photo(reviewed, number)
            for number in range(1, count + 1)
        ]
        return self._page(
            request,
            "device_photos.html",
            "/",
            photos=photos,
            labels=dict(sorted(labels.items())),
            side=self.home.settings.side if stored else 0,
            segmented=reviewed is not None,
            asked=self._preferences() is not None,
            missing=[] if reviewed is None else list(reviewed.without),
        )

    def photo(self, number: PhotoNumber) -> Response:
        """A reference photo as it is stored."""
        images = references(self.home).images
        if number > len(images):
            raise ConfigError("the device has no such photo")
        return _png(images[number - 1])

    def correct(self, request: Request, number: PhotoNumber, part: PlaceName = "") -> Response:
        """The cells of a photo: those of which nothing leaves, or those of an object."""
        reviewed = self._reviewed()
        if reviewed is None or number > len(reviewed.photos.ids):
            raise ConfigError("search the objects first: only then is there something to correct")
        if part not in ("", *reviewed.segments.nouns):
            raise ConfigError("the request has no such object")
        option = "--belongs" if part else "--hide"
        marked = Correction(number, part, marked_cells(reviewed, number, part))
        return self._page(
            request,
            "device_correct.html",
            "/correct",
            words=["device", "segment", f"{option}={marked}"],
            photo=shown_photo(reviewed, number),
            side=self.home.settings.side,
            part=part,
            nouns=reviewed.segments.nouns,
            cells=photo_cells(reviewed, number, part),
            columns=len(COLUMNS),
        )

    def request(self, request: Request, part: PlaceName = "") -> Response:
        """What model is wanted, and how much may leave of each part."""
        preferences = self._preferences()
        return self._page(
            request,
            "device_request.html",
            "/request",
            words=None if preferences is None else ["device", "request", *preferences.words()],
            asked=None if preferences is None else preferences.request,
            parts=self._parts(preferences),
            part=part,
            references=None if preferences is None else preferences.references,
            segmenter=None if preferences is None else preferences.other_segmenter,
        )

    def level(self, part: RequestPart, level: Annotated[str, Query(max_length=16)]) -> Response:
        """What would leave of a part at some level, of one of the photos."""
        preferences, reviewed = self._preferences(), self._reviewed()
        if preferences is None or reviewed is None or part >= len(preferences.request.parts):
            raise ConfigError("search the objects first: only then is there something to show")
        if level not in (_OBJECT_LEVELS if part else BACKGROUND_LEVELS):
            raise ConfigError("there is no such level")
        example = level_picture(self.home, reviewed, preferences, part, level)
        if example is None:
            raise ConfigError("nothing of it would leave")
        return _png(example.image)

    def preview(self, request: Request) -> Response:
        """What would leave, as what it is and what it tells, and the code to agree."""
        offer, servers = standing_offer(self.home), paired_servers(self.home)
        text, recipient, code, sent = "", "", "", False
        if offer is not None:
            text = str(parcel_report(self.home, offer.parcel).get("text", ""))
            if offer.server is not None:
                server = server_named(self.home, offer.server)
                recipient = server.described()
                digest = consent_digest(offer.parcel, offer.server)
                code = digest[:CODE_DIGITS]
                attempts = [one for one in self._disclosed() if one.attempt.code == digest]
                sent = any(one.state not in ("sent", "open") for one in attempts)  # to its end
                if sent:
                    text = text.partition("\nTo agree and send it: ")[0]
        return self._page(
            request,
            "device_preview.html",
            "/preview",
            text=text,
            offered=offer is not None,
            sheet=offer is not None and self.home.path("preview", "sheet.png").is_file(),
            recipient=recipient,
            code=code,
            sent=sent,
            servers=servers,
            asked=self._preferences() is not None,
        )

    def sheet(self) -> Response:
        """The sheet of the preview, drawn from the bytes that would leave."""
        path = self.home.path("preview", "sheet.png")
        if standing_offer(self.home) is None or not path.is_file():
            raise ConfigError("nothing is previewed")
        return FileResponse(path, media_type="image/png")

    def history(self, request: Request) -> Response:
        """Everything that left, by recipient."""
        disclosed = self._disclosed()
        by_recipient: dict[str, list[Disclosed]] = {}
        for one in disclosed:
            by_recipient.setdefault(one.recipient, []).append(one)
        return self._page(request, "device_history.html", "/history", recipients=by_recipient)

    def model(self, request: Request) -> Response:
        """The model back, with its accuracy on the owner's own photos, and a photo to try it on."""
        index = model_index(self.home)
        return self._page(
            request,
            "device_model.html",
            "/model",
            models=index.models,
            current=index.current,
            former=len(index.installed) > 1,
            open=[one for one in self._disclosed() if one.attempt.is_open],
        )

    def do(self, request: Request) -> Response:
        """Begin one of the device's commands."""
        form = form_of(request)
        action = needed(form, "action")
        if action not in _ACTIONS:
            raise ConfigError("the device's pages have no such button")
        page, words = _ACTIONS[action]
        self._begin(action, words(self.studio, form))
        return moved(page)

    async def upload(
        self,
        request: Request,
        name: Annotated[str, Query(max_length=255)],
        purpose: Annotated[str, Query(pattern="^(add|try)$")] = "add",
    ) -> Response:
        """Take in a dropped photo: to be added, or to try the model on."""
        suffix = Path(name).suffix.lower()
        if suffix not in _PHOTO_SUFFIXES:
            raise ConfigError("a photo is a JPEG, PNG, WebP, TIFF, BMP or GIF file")
        folder = self.studio.jobs.folder.parent / "photos"
        folder.mkdir(mode=0o700, exist_ok=True)
        for old in folder.iterdir():  # of commands that are over
            asking = [job for job in self._jobs() if str(old) in job.words]
            if all(self.studio.jobs.report(job).is_over for job in asking):
                old.unlink()
        place = folder / (secrets.token_hex(8) + suffix)
        await store_upload(request, place)
        if not place.stat().st_size:
            place.unlink()
            raise ConfigError("this file is empty")
        self._begin(purpose, [purpose, "--", str(place)])
        return JSONResponse({"place": ""})

    def _begin(self, action: str, words: list[str]) -> None:
        name, *rest = words
        if name == "add" and not stored_photos(self.home):  # settled with the first photo
            rest = [*self.studio.ledger_words(), *rest]
        self.studio.ask(
            action,
            ["device", name, f"--home={self.home.folder}", *rest],
            about=self.home.folder,
            queue=_QUEUE,
            stamp=self.studio.jobs.newest(self.home.folder),
        )

    def _jobs(self) -> list[ChildJob]:
        return self.studio.jobs.of(self.home.folder)

    def _page(
        self,
        request: Request,
        template: str,
        page: str,
        *,
        words: list[str] | None = None,
        **values: Any,
    ) -> Response:
        """A page, with the last command that one of its buttons began and what it printed."""
        actions = {action for action, (path, _) in _ACTIONS.items() if path == page}
        actions |= {"try"} if page == "/model" else set()
        jobs = [job for job in self._jobs() if job.kind in actions]
        last = jobs[-1] if jobs else None
        usual = {"/": "segment", "/request": "request", "/preview": "preview", "/model": "model"}
        if words is None:
            words = list(last.words) if last else ["device", usual.get(page, "history")]
        return self.studio.page(
            request,
            template,
            job=last,
            report=None if last is None else self.studio.jobs.report(last),
            printed="" if last is None else self.studio.jobs.out(last).strip(),
            command_words=command_line_of(words),
            **values,
        )

    def _parts(self, preferences: Preferences | None) -> list[PartLevels]:
        """The parts of a request with what may leave of them, the background last."""
        if preferences is None:
            return []
        reviewed, parts = self._reviewed(), []
        for part in (*range(1, len(preferences.request.parts)), 0):
            noun = preferences.request.parts[part].noun
            level = preferences.sanitizers[part].partition(":")[0]
            person = "person" in noun or level == "pose"
            names = _OBJECT_LEVELS if person else _IMPERSONAL_LEVELS
            names = names if part else tuple(BACKGROUND_LEVELS)
            examples = {
                name: example
                for name in names
                if reviewed is not None
                and (example := level_picture(self.home, reviewed, preferences, part, name))
            }
            parts.append(PartLevels(part, noun, names, examples, level))
        return parts

    def _preferences(self) -> Preferences | None:
        return _former_request(self.home)

    def _reviewed(self) -> ReviewedPhotos | None:
        preferences = self._preferences()
        try:
            return None if preferences is None else reviewed_photos(self.home, preferences)
        except InputError:  # nothing was searched yet, or photos have come since
            return None

    def _disclosed(self) -> list[Disclosed]:
        if not stored_photos(self.home):
            return []
        names = {one.public_key: one.described() for one in paired_servers(self.home)}
        rows = []
        for one in device_disclosures(self.home):
            job = job_of(self.home, one)
            state = "deleted" if one.deleted else "withdrawn" if one.withdrawn else "sent"
            if state == "sent" and job is not None:
                state = str(job["state"])
            receipt = receipt_path(self.home, one).is_file()
            rows.append(Disclosed(one, names.get(one.server, one.server[:16]), state, receipt))
        return rows


Words = Callable[[WebStudio, Mapping[str, str]], list[str]]


def _add(studio: WebStudio, form: Mapping[str, str]) -> list[str]:
    labelled = ["--labelled"] if form.get("labelled") else []
    return ["add", *labelled, "--", str(studio.roots.dataset(needed(form, "folder")))]


def _request(studio: WebStudio, form: Mapping[str, str]) -> list[str]:
    targets = [one.strip() for one in needed(form, "targets").split(",") if one.strip()]
    background = needed(form, "background")
    levels = {n.partition(".")[2]: v for n, v in form.items() if n.startswith("level.")}
    words = request_words(
        targets,
        background,
        {n: v for n, v in levels.items() if n in {*targets, background, BACKGROUND}},
        like=_former_request(DeviceHome.of(studio.home)),
        **{name: form.get(name) for name in ("classes", "references", "images", "training")},
        segmenter=_segmenter(studio, form["segmenter"]) if form.get("segmenter") else None,
    )
    return ["request", *words]


def _former_request(home: DeviceHome) -> Preferences | None:
    try:
        return stored_preferences(home)
    except RunError:
        return None


def _segmenter(studio: WebStudio, name: str) -> str:
    """A segmenter that is no file, or one of the roots."""
    kind, colon, rest = name.partition(":")
    if kind in ("litert", "onnx") and colon:
        return studio.roots.named("encoder", name)
    if set(rest) & set("/?&%\\.") or not colon:
        raise ConfigError(
            "a segmenter is embedded:NAME, or litert: and a file of these folders; the command "
            "line takes every other one"
        )
    return name


def _segment(_: WebStudio, form: Mapping[str, str]) -> list[str]:
    numbers = sorted(int(n[6:]) for n in form if n.startswith("leave.") and n[6:].isdecimal())
    said = numbers or form.get("reviewed")
    return ["segment", *([f"--leave-out={','.join(map(str, numbers))}"] if said else [])]


def _correct(_: WebStudio, form: Mapping[str, str]) -> list[str]:
    noun = f":{form['part']}" if form.get("part") else ""
    cells = ",".join(name[5:] for name in form if name.startswith("cell."))
    correction = Correction.read(f"{needed(form, 'number')}{noun}={cells}")
    return ["segment", f"{'--belongs' if noun else '--hide'}={correction}"]


def _preview(_: WebStudio, form: Mapping[str, str]) -> list[str]:
    server = [f"--server={form['server']}"] if form.get("server") else []
    return ["preview", *server, *([] if form.get("measure") else ["--no-measure"])]


_ACTIONS: Mapping[str, tuple[str, Words]] = {
    "add": ("/", _add),
    "segment": ("/", _segment),
    "correct": ("/", _correct),
    "request": ("/request", _request),
    "train": ("/model", lambda _, form: ["train"]),
    "pair": ("/preview", lambda _, form: ["pair", "--", needed(form, "code")]),
    "preview": ("/preview", _preview),
    "send": ("/history", lambda _, form: ["send", f"--yes={needed(form, 'code')}"]),
    "withdraw": ("/history", lambda _, form: ["withdraw"]),
    "delete": ("/history", lambda _, form: ["delete", f"--code={needed(form, 'code')}"]),
    "status": ("/model", lambda _, form: ["status", "--wait"]),
    "model": ("/model", lambda _, form: ["model", *(["--install"] if form.get("install") else [])]),
    "rollback": ("/model", lambda _, form: ["model", "--rollback"]),
}
"""Every button: the page that it leads to, and its command."""


def _png(image: NDArray[np.uint8]) -> Response:
    data = io.BytesIO()
    Image.fromarray(image).save(data, "PNG")
    return Response(data.getvalue(), media_type="image/png")

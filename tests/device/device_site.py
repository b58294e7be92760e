"""A device in a folder: photos full of canaries, a colour segmenter, and the wire's messages."""

import csv
import os
import signal
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from starlette.testclient import TestClient
from tests.methods.sanitize.painted_world import SIDE, rooms
from tests.plugin_packages import install
from tests.server.site import DigestPipeline, Server

from understudy.core.types import Images
from understudy.device.disclosures import DisclosureAttempt
from understudy.device.home_folder import DeviceHome
from understudy.device.outbox import Outbox, ServerUnreachable
from understudy.device.photo_store import add_photos, photo_files
from understudy.device.preferences import Preferences, make_preferences
from understudy.device.preview import CheckSettings, DisclosurePreview, preview
from understudy.device.review import segment_photos
from understudy.methods.sanitize.jobs import MODEL_FILE, JobMaterial, StageFiles

SEGMENTER = "colours:red"
CANARY = "Canary"
CLASSES = ("blue", "green")
_BACKEND = """
from tests.methods.sanitize.painted_models import ColourTuner, Painter
from tests.methods.sanitize.painted_world import ColourSegmenter

class Colours:
    def models(self):
        return []

    def model(self, kind, rest, **options):
        models = {"generator": Painter, "tuner": ColourTuner}
        return models.get(kind, ColourSegmenter)()

backend = Colours()
"""


def install_colours(folder: Path) -> None:
    """The painted world's segmenter, generator and tuner as a package: ``colours:red``."""
    points = {"understudy.backends": {"colours": "colour_backend:backend"}}
    install(folder, "colours", {"colour_backend": _BACKEND}, points)


def save_photo(image: Images, path: Path, orientation: int = 1) -> None:
    """A PNG that tells everything: maker, place and time in its EXIF, and a comment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    exif[0x010F], exif[0x9003], exif[0x0112] = f"{CANARY} maker", "2031:03:07 01:02:03", orientation
    exif[0x8825] = {1: "N", 2: (48.0, 8.0, 1.0)}
    Image.fromarray(image).save(path, exif=exif)
    os.utime(path, (1_111_111_111, 1_111_111_111))


class ColourPipeline(DigestPipeline):
    """Gives a model that tells blue from green images."""

    def run(self, stage: str, material: JobMaterial) -> StageFiles:
        files: dict[str, Any] = dict(super().run(stage, material))
        if MODEL_FILE in files:
            files[MODEL_FILE] = colour_model(material.request.side)
        return files


def colour_model(side: int = SIDE, *, gain: float = 1.0, bias: float = 0.0) -> bytes:
    """ONNX: mean of blue against mean of green; a negative gain is always wrong."""
    weights = np.array([[0, 0], [0, gain], [gain, 0]], np.float32)
    nodes = [
        helper.make_node("GlobalAveragePool", ["images"], ["means"]),
        helper.make_node("Flatten", ["means"], ["colours"], axis=1),
        helper.make_node("Gemm", ["colours", "weights", "bias"], ["scores"]),
    ]
    constants = [
        numpy_helper.from_array(weights, "weights"),
        numpy_helper.from_array(np.array([bias, 0], np.float32), "bias"),
    ]
    graph = helper.make_graph(
        nodes,
        "colours",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, side, side])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 2])],
        constants,
    )
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    data: bytes = model.SerializeToString()
    onnx.checker.check_model(model)
    return data


@dataclass
class RecordingExchange:
    """Requests to a server in this process, each of them recorded.

    Attributes:
        client: Asks the server.
        messages: Method, path and body of each request, in order.
        before: Called with the number of the request before it is made; may raise.
        after: The same once the server has answered.
    """

    client: TestClient
    messages: list[tuple[str, str, bytes]] = field(default_factory=list)
    before: Callable[[int], None] = lambda number: None
    after: Callable[[int], None] = lambda number: None

    def __call__(self, method: str, path: str, body: bytes, token: str | None) -> tuple[int, bytes]:
        number = len(self.messages)
        self.before(number)
        self.messages.append((method, path, body))
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        answer = self.client.request(method, path, content=body, headers=headers)
        self.after(number)
        return answer.status_code, answer.content


def unreachable(number: int) -> None:
    raise ServerUnreachable("cut off")


class DeviceSite:
    """One device, its photos, and the ledger beside it."""

    def __init__(self, folder: Path, name: str = "device") -> None:
        self.folder, self.name = folder, name
        self.home = DeviceHome.of(folder / name)
        self.ledger = str(folder / f"{name}-ledger.db")
        self.exchange: RecordingExchange | None = None

    def pair(self, server: Server, client: TestClient, url: str = "http://localhost") -> None:
        self.exchange = RecordingExchange(client)
        code = server.pairing_code(url).text()
        Outbox(self.home, self.exchange).pair(code)
        self.exchange.messages.clear()

    def attempt(self, shown: DisclosurePreview) -> DisclosureAttempt:
        """What was sent of a preview, the last time."""
        assert shown.server is not None
        return self.outbox.attempts(shown.parcel.digest, shown.server.public_key)[-1]

    @property
    def outbox(self) -> Outbox:
        return Outbox(self.home, self.exchange)

    def add(self, count: int = 6, seed: int = 0, *, orange: bool = False) -> Path:
        """Painted photos of one camera, as files with canaries in names and metadata."""
        place = self.folder / f"{self.name}-photos"
        for row, image in enumerate(rooms(count, seed=seed, orange=orange)[0]):
            save_photo(image, place / f"{CANARY}-{row}.png")
        add_photos(self.home, photo_files(place), side=SIDE, ledger=self.ledger)
        return place

    def add_labelled(self, each: int = 3) -> None:
        """Photos of two classes, told apart by their colour."""
        rng = np.random.default_rng(1)
        for channel, name in ((2, "blue"), (1, "green")):
            for row in range(each):
                image = rng.integers(0, 40, (SIDE, SIDE, 3), dtype=np.uint8)
                image[..., channel] += 150
                save_photo(image, self.folder / "labelled" / name / f"{row}.png")
        files = photo_files(self.folder / "labelled", labelled=True)
        add_photos(self.home, files, side=SIDE, ledger=self.ledger)

    def ask(self, levels: Mapping[str, str] | None = None, references: int = 4) -> Preferences:
        return make_preferences(
            self.home,
            targets=["dog"],
            background="room",
            classes=CLASSES,
            levels=levels,
            references=references,
            segmenter=SEGMENTER,
        )

    def public(self) -> tuple[Path, Path]:
        """Rooms that never held the object, and homes with a status each, as folders."""
        place, homes = self.folder / "rooms", self.folder / "homes"
        if not place.exists():
            rng = np.random.default_rng(5)
            for row, colour in enumerate(((40, 140, 90), (120, 120, 60), (90, 60, 120))):
                image = np.full((SIDE, SIDE, 3), colour, np.uint8) + rng.integers(
                    0, 9, (SIDE, SIDE, 3), dtype=np.uint8
                )
                save_photo(image, place / f"{row}.png")
            lines = [("path", "label", "home")]
            for home in range(6):
                for row, image in enumerate(rooms(2, seed=100 + home)[0]):
                    save_photo(image, homes / f"{home}-{row}.png")
                    lines.append((f"{home}-{row}.png", CLASSES[row], f"home-{home}"))
            with (homes / "manifest.csv").open("w", newline="") as file:
                csv.writer(file).writerows(lines)
        return place, homes

    def checks(self, *, measure: bool = False) -> CheckSettings:
        place, homes = self.public()
        return CheckSettings(rooms=str(place), homes=str(homes), measure=measure)

    def show(
        self,
        levels: Mapping[str, str] | None = None,
        references: int = 4,
        *,
        server: str | None = None,
        measure: bool = False,
        leave_out: Sequence[int] = (),
    ) -> DisclosurePreview:
        """Ask, segment and preview."""
        preferences = self.ask(levels, references)
        if preferences.request.disclosed:
            segment_photos(self.home, preferences, leave_out)
        return preview(self.home, preferences, self.checks(measure=measure), server=server)

    def rows(self, kind: str) -> list[Any]:
        with self.home.settings.open_ledger() as ledger:
            return [row for row in ledger.rows() if row.kind == kind]


def child(work: Callable[[], None]) -> int:
    """A process of its own that does this and ends."""
    process = os.fork()
    if process == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return process


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)

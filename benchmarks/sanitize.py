"""What leaves a device at each level: pixels that stay, attacks, information; the playhouse.

40 homes, 10 references each. The first search is the mini studio's segmenter. The second look is
another one beside it, a small network that learns from public renders, half of them with a dog
that was erased in part. Truth comes from the renderer and is used for measuring alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn
from torch.nn import functional

from benchmarks.tables import CACHE, Table
from understudy.audit.adjacent_datasets import InMemorySource
from understudy.backends.registry import load_encoder, load_model
from understudy.core.ports import Segmenter, TextEncoder
from understudy.core.types import Images, Maps, Masks
from understudy.device.parcel import drawn_item
from understudy.engine.local import LocalEngine
from understudy.methods.sanitize.background import Backgrounds, HoleSettings, backgrounds
from understudy.methods.sanitize.noisy_maps import MAP_STAGE, cell_means, noisy_mean_map
from understudy.methods.sanitize.sanitizers import (
    BoxSanitizer,
    EdgesSanitizer,
    NoiseSanitizer,
    PhotoPart,
    PoseSanitizer,
    Sanitized,
    Sanitizer,
    SegmentSanitizer,
    items_of,
)
from understudy.methods.sanitize.segments import (
    Remnants,
    SearchSettings,
    SecondLook,
    Segments,
    search,
)
from understudy.metrics.disclosure import PartMessages, disclosed_information
from understudy.metrics.message_attacks import (
    AttackAccuracy,
    camera_residuals,
    outline_attack,
    reidentification,
)
from understudy.metrics.semantic import prompt_similarity
from understudy.playhouse import DrawnImage, Home, World
from understudy.playhouse.dog import DOG_KEYPOINTS
from understudy.playhouse.picture import DOG
from understudy.privacy.account import Account
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.unit import Unit
from understudy.privacy.vault import PrivateVault

PARTS = ("hidden", "attacks", "information", "maps")
HOMES, EACH, FEW = 40, 10, 5
MARKER = np.array((255, 0, 255), dtype=np.uint8)
HOLES = HoleSettings()
STEPS, ROWS = 500, 1200


def main(parts: Sequence[str] = PARTS, *, sheets: Path | None = None, tiny: bool = False) -> None:
    """The tables; sheets of what leaves, into a folder."""
    homes = 8 if tiny else HOMES
    for name in parts:
        PART_FUNCTIONS[name](homes, sheets)


@dataclass(frozen=True)
class Street:
    """The references of some homes, row by row: all of a home, then those of the next."""

    drawn: list[DrawnImage]
    each: int

    @property
    def photos(self) -> Images:
        return np.stack([one.image for one in self.drawn])

    @property
    def dogs(self) -> Masks:
        return np.stack([one.segments == DOG for one in self.drawn])

    @property
    def statuses(self) -> NDArray[np.int64]:
        return np.array([one.label for one in self.drawn])

    @property
    def homes(self) -> list[str]:
        return [one.unit for one in self.drawn]

    def by_home(self) -> list[slice]:
        return [slice(at, at + self.each) for at in range(0, len(self.drawn), self.each)]


@cache
def street(homes: int, each: int = EACH) -> Street:
    return Street([Home(at).draw(day) for at in range(homes) for day in range(each)], each)


@cache
def segments(homes: int, each: int = EACH) -> Segments:
    return search(
        street(homes, each).photos,
        ["dog"],
        load_model(Segmenter, "embedded:studio"),
        SearchSettings(),
    )


def room_of(
    one: Street, hidden: Masks, look: Callable[..., Remnants], holes: HoleSettings = HOLES
) -> Backgrounds:
    """Each home's backgrounds by themselves, put together again."""
    results = [
        backgrounds(one.photos[rows], hidden[rows], ["dog"], look, settings=holes)
        for rows in one.by_home()
    ]
    remnants = [result.remnants for result in results]
    return Backgrounds(
        np.concatenate([result.images for result in results]),
        np.concatenate([result.holes for result in results]),
        np.concatenate([result.hidden for result in results]),
        float(np.mean([result.unseen for result in results])),
        Remnants(
            np.concatenate([one.masks for one in remnants]),
            np.concatenate([one.areas for one in remnants]),
            np.concatenate([one.held_back for one in remnants]),
        ),
    )


def looks() -> dict[str, SecondLook]:
    studio = load_model(Segmenter, "embedded:studio")
    return {
        "the same, fillers as rooms": SecondLook(segmenters=(studio,), rooms=rooms_without("dog")),
        "the same segmenter": SecondLook(segmenters=(studio,)),
        "another network": SecondLook(segmenters=(RemnantNetwork.trained(),)),
        "both": SecondLook(segmenters=(studio, RemnantNetwork.trained())),
    }


def rooms_without(noun: str, count: int = 3, first: int = 0) -> Images:
    """Public rooms of other objects."""
    world = World(64, tuple(one for one in ("bottle", "person", "frame", "dog") if one != noun))
    return np.stack([world.draw(7_000_000 + first + at).image for at in range(count)])


def nothing_left(images: Images, nouns: Sequence[str], filler: Masks | None = None) -> Remnants:
    """A second look that finds nothing."""
    blank = np.zeros(images.shape[:3], dtype=bool)
    return Remnants(blank, blank.mean(axis=(1, 2)), blank.any(axis=(1, 2)))


def left_of(one: Street, result: Backgrounds, holes: HoleSettings) -> NDArray[np.float64]:
    """Part of each photo's dog that is in its background: the dogs painted, the same holes.

    The fill is the median of several photos, so what is painted there is a dog of one of them.
    """
    painted = np.where(one.dogs[..., None], MARKER, one.photos)
    drawn = [replace(d, image=image) for d, image in zip(one.drawn, painted, strict=True)]
    again = room_of(Street(drawn, one.each), result.hidden, nothing_left, replace(holes, rounds=0))
    colours, plain = again.images.astype(int), result.images.astype(int)
    left = np.minimum(colours[..., 0], colours[..., 2]) - colours[..., 1] > 100
    left &= np.abs(colours - plain).max(axis=3) > 20
    return left.sum(axis=(1, 2)) / np.maximum(one.dogs.sum(axis=(1, 2)), 1)


def hidden(homes: int, sheets: Path | None) -> None:
    """Acceptance 6: what is left of a dog that stays home, 5 references a home."""
    one = street(homes, FEW)
    found = segments(homes, FEW).hidden[0]
    table = Table(
        f"A dog at L0, {homes} homes x {FEW} photos: what is left of it in the background",
        ("second look", "rounds", "held back", "left, mean", "left, worst", "unseen"),
    )
    for name, look in looks().items():
        for rounds in (0, 1):
            holes = replace(HOLES, rounds=rounds)
            start = time.perf_counter()
            result = room_of(one, found, look, holes)
            left, sent = left_of(one, result, holes), ~result.remnants.held_back
            table.row(
                name,
                rounds,
                f"{1 - sent.mean():.1%}",
                f"{left[sent].mean():.3%}",
                f"{left[sent].max():.2%}",
                f"{result.unseen:.1%}",
            )
            print(f"  {time.perf_counter() - start:.0f} s", flush=True)
    _first_search(one, table)
    _checked(one, found)
    if sheets is not None:
        _sheet(one, room_of(one, found, looks()["another network"]), sheets / "levels.png")


def _checked(one: Street, found: Masks) -> None:
    """How often the second look errs where no dog ever was, and where one was missed altogether."""
    look, fillers = looks()["the same, fillers as rooms"], []

    def note(images: Images, nouns: Sequence[str], filler: Masks) -> Remnants:
        fillers.append(filler[:1])
        return nothing_left(images, nouns)

    room_of(one, found, note, replace(HOLES, rounds=0))
    public = rooms_without("dog", len(fillers), first=100)
    alarms = look(public, ["dog"], np.concatenate(fillers)).held_back
    missed = found.copy()
    missed[:: one.each] = False
    print(f"rooms that never held it: found in {np.mean(alarms):.1%}")
    for rounds in (0, 1):
        holes = replace(HOLES, rounds=rounds)
        result = room_of(one, missed, look, holes)
        left, sent = left_of(one, result, holes), ~result.remnants.held_back
        print(
            f"a dog that was missed in one of {one.each} photos, {rounds} rounds: "
            f"{1 - sent.mean():.1%} held back, {left[sent].max(initial=0):.2%} left at worst"
        )


def _first_search(one: Street, table: Table) -> None:
    """What simpler searches leave, before any grid of holes."""
    studio = load_model(Segmenter, "embedded:studio")
    plain = SearchSettings(
        scales=(1.0,), flips=False, threshold=0.5, growth=3, look_alikes=False, belongings=False
    )
    for name, settings in (
        ("first search alone, one scale", plain),
        ("all scales", SearchSettings()),
    ):
        mask = search(one.photos, ["dog"], studio, settings).hidden[0]
        left = (one.dogs & ~mask).sum(axis=(1, 2)) / one.dogs.sum(axis=(1, 2))
        table.row(name, "-", "-", f"{left.mean():.3%}", f"{left.max():.2%}", "-")


def attacks(homes: int, sheets: Path | None) -> None:
    """What a server reads: the status by homes it has not met, and which home it is."""
    one, found = street(homes), segments(homes)
    # Before any photo is held back: all of them.
    result = room_of(one, found.hidden[0], nothing_left)
    alone = room_of(one, found.hidden[0], nothing_left, replace(HOLES, shared=False))
    table = Table(
        f"Attacks on what is sent, {homes} homes x {EACH} references",
        ("what is sent", "status", "chance", "home", "chance", "attacker"),
    )
    part = PhotoPart(one.photos, one.dogs, "dog")
    for grid in (1, 4, 8, 16, 32):
        boxes = BoxSanitizer(grid).sanitize(part).values.astype(float)
        _row(table, f"L1 box, grid {grid} px", one, {"box": boxes})
    exact = np.where(one.dogs[..., None], np.uint8(0), one.photos)
    _row(table, "L2 background, exact hole", one, {"": exact, "network": exact})
    _row(table, "L2 background, own hole on the grid", one, _views(alone.images, one))
    _row(table, "L2 background, ours", one, _views(result.images, one))
    room = PhotoPart(result.images, np.ones_like(one.dogs), "room")
    _row(
        table,
        "L1 edges of the background, ours",
        one,
        _views(image_of(EdgesSanitizer(), room), one),
    )
    target = PhotoPart(one.photos, found.masks[0], "dog")
    _row(
        table,
        "L1 edges of the dog (disclosed)",
        one,
        {"network": image_of(EdgesSanitizer(), target)},
    )
    _row(
        table,
        "L2 segment of the dog (disclosed)",
        one,
        {"network": image_of(SegmentSanitizer(), target)},
    )


def image_of(sanitizer: Sanitizer, part: PhotoPart) -> Images:
    """What is sent of a part, drawn from the items; black where nothing is."""
    message = sanitizer.sanitize(part)
    return drawn_message(message, part, getattr(sanitizer, "skeleton", None))


def drawn_message(message: Sanitized, part: PhotoPart, skeleton: str | None) -> Images:
    images = np.zeros_like(part.photos)
    rows = np.flatnonzero(~message.empty)
    for row, item in zip(rows, items_of(message, part, 1), strict=True):
        images[row] = drawn_item(item, skeleton)
    return images


def _views(images: Images, one: Street) -> Mapping[str, Images]:
    residuals = camera_residuals(images, one.homes)
    return {
        "image": images,
        "residual": residuals,
        "network": images,
        "network on residual": residuals,
    }


def _network_attacker(
    known: NDArray[np.generic],
    statuses: NDArray[np.int64],
    asked: NDArray[np.generic],
    classes: int,
) -> NDArray[np.int64]:
    from understudy.metrics.networks.classifier_training import train_on_images

    network = train_on_images(known, statuses, classes=classes, seed=0, epochs=15, flip=True)
    return network.predict(asked)


def _row(table: Table, name: str, one: Street, views: Mapping[str, NDArray[np.generic]]) -> None:
    """The best attacker on any view of what is sent."""
    results: list[tuple[str, AttackAccuracy]] = []
    for view, messages in views.items():
        network = {"network": _network_attacker} if view.startswith("network") else None
        if network is not None:
            messages = messages[:, ::2, ::2]
        read = outline_attack(
            messages, one.statuses, one.homes, attackers=network, folds=4 if network else 5
        )
        results.append((f"{read[0].attacker}, {view}".strip(", "), read[0]))
    words, best = max(results, key=lambda pair: pair[1].accuracy.value)
    home = reidentification(next(iter(views.values())), one.homes)
    table.row(
        name,
        f"{best.accuracy.value:.0%}",
        f"{best.chance:.0%}",
        f"{home.accuracy.value:.0%}",
        f"{home.chance:.1%}",
        f"  {words}",
    )


def information(homes: int, sheets: Path | None) -> None:
    """MI of both parts for each preference: half of the homes, with the others for the bias."""
    one, found = street(homes), segments(homes)
    room = room_of(one, found.hidden[0], nothing_left).images
    target = PhotoPart(one.photos, found.visible((2,), 0), "dog")
    whole = PhotoPart(room, np.ones_like(one.dogs), "room")
    poses = KnownPoses(DrawnPoses([d.instances[0].keypoints for d in one.drawn]), "dog", 0.0)
    sent = {
        "L0": None,
        "L1 box": image_of(BoxSanitizer(), target),
        "L1 pose": image_of(poses, target),
        "L1 edges": image_of(EdgesSanitizer(), target),
        "L2": image_of(SegmentSanitizer(), target),
        **{f"L2, noise {s}": image_of(NoiseSanitizer(s), target) for s in (5, 10, 50)},
    }
    rooms = {"L0": None, "L1": image_of(EdgesSanitizer(), whole), "L2": room}
    table = Table(
        f"Mutual information, bias removed; {homes // 2} homes x {EACH} references",
        ("(target, background)", "target", "+-", "plain", "background", "+-", "plain"),
    )
    pairs = [(t, "L0") for t in sent] + [
        ("L0", "L1"),
        ("L0", "L2"),
        ("L1 edges", "L2"),
        ("L2", "L2"),
    ]
    for pair in pairs:
        messages = [m for m in (sent[pair[0]], rooms[pair[1]]) if m is not None]
        table.row(
            f"({pair[0]}, {pair[1]})",
            *_disclosed(one, one.dogs, messages),
            *_disclosed(one, ~one.dogs, messages),
        )
    unrelated = np.roll(one.photos, 3 * EACH, axis=0)
    table.row(
        "photos of other homes",
        *_disclosed(one, one.dogs, [unrelated]),
        *_disclosed(one, ~one.dogs, [unrelated]),
    )
    _prompts(one)


def _disclosed(one: Street, parts: Masks, messages: Sequence[Images]) -> tuple[str, str, str]:
    half = len(one.drawn) // 2
    own, others = (
        PartMessages(one.photos[rows], parts[rows], tuple(m[rows] for m in messages))
        for rows in (slice(half), slice(half, None))
    )
    result = disclosed_information(own, others)
    width = (result.corrected.high - result.corrected.low) / 2
    return f"{result.corrected.value:.2%}", f"{width:.2%}", f"{result.uncorrected:.2%}"


def _prompts(one: Street) -> None:
    """SIM of the request's words and the photos (the paper's Table 4d)."""
    encoder = load_encoder("embedded:studio", shape=one.photos.shape[1:])
    assert isinstance(encoder, TextEncoder)
    texts = [f"a dog {status}" for status in ("eating", "sitting", "sleeping", "playing")]
    result = prompt_similarity(
        encoder.encode(one.photos), encoder.encode_text(texts), encoder.encode_text([""])
    )
    print(
        f"SIM of prompts {result.prompts.value:.3f}, of the empty prompt "
        f"{result.empty.value:.3f}, above it {result.above.value:.3f}"
    )


class KnownPoses(PoseSanitizer):
    """Of keypoints that are known: no part is cut out and enlarged for them."""

    def people(self, part: PhotoPart) -> list[NDArray[np.float32]]:
        return self.estimator.pose(part.photos)


class DrawnPoses:
    """The renderer's keypoints, row by row: a pose estimator that is never wrong."""

    name, licence, keypoints = "renderer", "none", DOG_KEYPOINTS

    def __init__(self, poses: Sequence[NDArray[np.float32]]) -> None:
        self._poses = poses

    def pose(self, images: Images) -> list[NDArray[np.float32]]:
        return [pose[None] for pose in self._poses[: len(images)]]


class RemnantNetwork(nn.Module):
    """A small network that finds what is left of dogs; a segmenter."""

    name, licence, classes = "benchmark:remnants", "none", ("room", "dog")

    def __init__(self) -> None:
        super().__init__()
        widths = (24, 48, 64)
        self.down = nn.ModuleList(
            nn.Sequential(nn.Conv2d(before, after, 4, stride=2, padding=1), *_block(after))
            for before, after in zip((3, *widths[:-1]), widths, strict=True)
        )
        self.up = nn.ModuleList(
            nn.Sequential(nn.Conv2d(deep + flat, flat, 1), *_block(flat))
            for deep, flat in ((64, 48), (48, 24))
        )
        self.head = nn.Conv2d(widths[0], 1, 1)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        size, levels = pixels.shape[2:], []
        for block in self.down:
            pixels = block(pixels)
            levels.append(pixels)
        for block, level in zip(self.up, levels[-2::-1], strict=True):
            larger = functional.interpolate(pixels, size=level.shape[2:])
            pixels = block(torch.cat([larger, level], dim=1))
        return functional.interpolate(self.head(pixels), size=size, mode="bilinear")[:, 0]

    @torch.no_grad()
    def score(self, images: Images, classes: Sequence[str]) -> NDArray[np.float32]:
        """(n, classes, height, width)."""
        dog = torch.cat(
            [self(_pixels(part)) for part in np.array_split(images, -(-len(images) // 64))]
        )
        scores = dog.sigmoid().numpy()
        return np.stack([scores if name == "dog" else 1 - scores for name in classes], axis=1)

    def segment(self, images: Images) -> Maps:
        return (self.score(images, ("dog",))[:, 0] >= 0.5).astype(np.int64)

    @classmethod
    @cache
    def trained(cls) -> RemnantNetwork:
        """Trained once, and kept."""
        file = CACHE / "sanitize-remnants.pt"
        torch.manual_seed(0)
        network = cls()
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            _train(network)
            torch.save(network.state_dict(), file)
        network.load_state_dict(torch.load(file))
        return network.eval()


def _block(width: int) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.BatchNorm2d(width), nn.ReLU()]
    return [*layers, nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]


def _pixels(images: Images) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2) / 127.5 - 1


def _train(network: RemnantNetwork) -> None:
    """Public dogs, half of them erased in part, and rooms of persons and bottles without any."""
    world = World(64, ("dog", "dog", "dog", "person", "bottle"))
    drawn = [world.draw(seed) for seed in range(8_000_000, 8_000_000 + ROWS)]
    images = np.stack([one.image for one in drawn])
    dogs = np.stack([one.segments == DOG for one in drawn])
    rng = np.random.default_rng(0)
    optimiser = torch.optim.AdamW(network.parameters(), weight_decay=0.02)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=STEPS)
    network.train()
    for step in range(STEPS):
        rows = rng.integers(len(images), size=32)
        pixels, truth = _erased(images[rows], dogs[rows], rng)
        logits = network(_changed(_pixels(pixels)))
        loss = functional.binary_cross_entropy_with_logits(
            logits, torch.from_numpy(truth).float(), pos_weight=torch.tensor(2.0)
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        rate.step()
        if step % 100 == 0:
            print(f"  second network: step {step}, loss {loss.item():.3f}", flush=True)


def _erased(images: Images, dogs: Masks, rng: np.random.Generator) -> tuple[Images, Masks]:
    """Boxes of half of the images filled from another place of the same image."""
    images, dogs = images.copy(), dogs.copy()
    for image, dog in zip(images, dogs, strict=True):
        if rng.random() < 0.5:
            top, left = rng.integers(0, 48, 2)
            height, width = rng.integers(12, 56, 2)
            box = np.s_[top : top + height, left : left + width]
            colour = image[rng.integers(64), rng.integers(64)]
            shift = np.roll(image, rng.integers(16, 48, 2), axis=(0, 1))[box]
            image[box] = colour if rng.random() < 0.5 else shift // 2 + colour // 2
            dog[box] = False
    return images, dogs


def _changed(pixels: torch.Tensor) -> torch.Tensor:
    """Light, tint, static."""
    count = len(pixels)
    tint = 0.75 + 0.5 * torch.rand((count, 3, 1, 1))
    shift = 0.5 * (torch.rand((count, 1, 1, 1)) - 0.5)
    static = 0.12 * torch.rand((count, 1, 1, 1)) * torch.randn_like(pixels)
    return (pixels * tint * (0.6 + 0.7 * torch.rand((count, 1, 1, 1))) + shift + static).clamp(
        -1, 1
    )


def maps(homes: int, sheets: Path | None) -> None:
    """L1 under differential privacy: the noisy mean of a home's dog edges."""
    table = Table(
        "Noisy mean of the edges of one home's dog, 8 x 8 cells, delta 1e-5",
        ("references", "epsilon", "noise / largest mean", "correlation with the true mean"),
    )
    home = Home(0)
    for count in (10, 100, 1000):
        drawn = [home.draw(day) for day in range(count)]
        photos = np.stack([one.image for one in drawn])
        alone = np.where(
            np.stack([one.segments == DOG for one in drawn])[..., None], photos, np.uint8(127)
        )
        for epsilon in (1.0, 8.0):
            mean, noisy, noise = _noisy_map(alone, epsilon)
            fit = np.corrcoef(mean.ravel(), noisy.ravel())[0, 1]
            table.row(str(count), f"{epsilon:g}", f"{noise / mean.max():.2f}", f"{fit:.2f}")


def _noisy_map(alone: Images, epsilon: float) -> tuple[NDArray, NDArray, float]:
    import tempfile

    def edges_of(images: Images) -> Images:
        dog = (images != 127).any(axis=3)
        return image_of(EdgesSanitizer(), PhotoPart(images, dog, "dog"))

    source = InMemorySource(
        f"dogs-{len(alone)}", "images", ("all",), alone, np.zeros(len(alone), dtype=np.int64)
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "cache").mkdir()
        with Ledger(str(folder / "ledger.db")) as ledger:
            plan = Plan.of(Budget(epsilon, 1e-5), {MAP_STAGE.name: MAP_STAGE.weight})
            account = Account(ledger, ledger.register(source).id, Unit(), plan, folder / "stages")
            vault = PrivateVault(source, account, LocalEngine(1), folder / "cache")
            result = noisy_mean_map(vault, edges_of)
    return cell_means(edges_of(alone), 8).mean(axis=0), result.mean, result.noise_sd


def _sheet(one: Street, result: Backgrounds, file: Path) -> None:
    """Three homes: the photo, what is hidden, the background, its edges, box, edges, segment."""
    file.parent.mkdir(parents=True, exist_ok=True)
    studio = segments(len(one.drawn) // one.each, one.each)
    target = PhotoPart(one.photos, studio.visible((2,), 0), "dog")
    room = PhotoPart(result.images, np.ones_like(one.dogs), "room")
    poses = KnownPoses(DrawnPoses([d.instances[0].keypoints for d in one.drawn]), "dog", 0.0)
    dimmed = np.where(result.hidden[..., None], one.photos, one.photos // 4)
    held = result.remnants.held_back[:, None, None, None]
    columns = [
        one.photos,
        dimmed,
        np.where(held, result.images // 3, result.images),
        image_of(EdgesSanitizer(), room),
        *(
            image_of(s, target)
            for s in (
                BoxSanitizer(),
                poses,
                EdgesSanitizer(),
                SegmentSanitizer(),
                NoiseSanitizer(50),
            )
        ),
    ]
    rows = [
        np.concatenate([c[at] for c in columns], axis=1)
        for at in range(0, 12 * one.each, one.each + 1)
    ]
    _save(np.concatenate(rows[:9]), file, 2)


def _save(image: NDArray[np.uint8], file: Path, times: int) -> None:
    size = (image.shape[1] * times, image.shape[0] * times)
    Image.fromarray(image).resize(size, Image.Resampling.NEAREST).save(file)
    print(f"  {file}")


PART_FUNCTIONS: Mapping[str, Callable[[int, Path | None], None]] = {
    "hidden": hidden,
    "attacks": attacks,
    "information": information,
    "maps": maps,
}

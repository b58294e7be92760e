"""The mini studio, measured by networks that learnt from true renders only.

The judges (a classifier of status and colour, an estimator of keypoints) never see a picture of the
studio while they learn; how good they are on held-out renders is printed with what they say.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from benchmarks.commands import command_seconds
from benchmarks.tables import Table
from understudy.backends.embedded.shipped import STUDIO_WEIGHTS
from understudy.backends.registry import load_decoder, load_encoder, load_model
from understudy.core.ports import Captioner, Encoder, Generator, PromptedDecoder, Segmenter, Tuner
from understudy.core.types import Images
from understudy.playhouse import DrawnImage, Home, World
from understudy.playhouse.attributes import TARGET_STATUSES
from understudy.playhouse.grammar import read_caption
from understudy.playhouse.picture import SEGMENT_CLASSES
from understudy.steps.hints import edges, skeleton

SHAPE = (64, 64, 3)
STUDIO = os.environ.get("UNDERSTUDY_STUDIO", "")  # another studio's folder, to measure that one

COLOURS = {"dog": "coat", "person": "shirt"}
CAPTIONS = 400
TRUE_SEEDS = range(5_000_000, 5_012_000)
"""Renders for the judges: far from those the studio learnt from."""

HELD_OUT = range(6_000_000, 6_001_000)
SUBJECT = 3  # the home whose dog is learnt

PROMPTS = range(7_000_000, 7_000_000 + CAPTIONS)


def named(options: str = "") -> str:
    """The studio's name with options."""
    told = [part for part in (f"folder={STUDIO}" if STUDIO else "", options) if part]
    return "embedded:studio" + ("?" + "&".join(told) if told else "")


def studio_sum(folder: Path | None = None) -> str:
    """A short sum of its networks, or of those in a folder, for the names of what they drew."""
    folder = folder or (Path(STUDIO) if STUDIO else STUDIO_WEIGHTS)
    sums = (hashlib.sha256(file.read_bytes()) for file in sorted(folder.glob("*/*.safetensors")))
    return hashlib.sha256(b"".join(one.digest() for one in sums)).hexdigest()[:12]


def targets(seeds: Iterable[int], *kinds: str) -> list[DrawnImage]:
    """Public pictures of dogs and persons."""
    world = World(64, kinds or ("dog", "person"))
    return [world.draw(seed) for seed in seeds]


def stack(pictures: Iterable[DrawnImage]) -> Images:
    return np.stack([picture.image for picture in pictures])


class Judge(nn.Module):
    """A small residual network with a head for each attribute, and one for keypoints."""

    def __init__(self, heads: dict[str, int], points: int) -> None:
        super().__init__()
        widths = (32, 64, 128, 192)
        layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 3, padding=1)]
        for before, after in zip(widths, (*widths[1:], widths[-1]), strict=True):
            layers += [nn.BatchNorm2d(before), nn.ReLU(), nn.Conv2d(before, after, 3, 2, 1)]
            layers += [nn.BatchNorm2d(after), nn.ReLU(), nn.Conv2d(after, after, 3, padding=1)]
        self.body = nn.Sequential(*layers, nn.BatchNorm2d(widths[-1]), nn.ReLU())
        self.heads = nn.ModuleDict(
            {key: nn.Linear(widths[-1] * 2, count) for key, count in heads.items()}
        )
        self.points = nn.Sequential(nn.Flatten(), nn.Linear(widths[-1] * 16, 2 * points))

    def forward(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        seen = self.body(pixels)
        pooled = torch.cat([seen.mean((2, 3)), seen.amax((2, 3))], dim=1)
        found = {key: head(pooled) for key, head in self.heads.items()}
        return {**found, "points": self.points(seen)}


class Judges:
    """What a picture shows, by one network for dogs and one for persons."""

    def __init__(self, pictures: list[DrawnImage], *, epochs: int = 8) -> None:
        self.values: dict[str, dict[str, list[str]]] = {}
        self.networks: dict[str, Judge] = {}
        for kind, colour in COLOURS.items():
            of_kind = [p for p in pictures if p.attributes["target"] == kind]
            keys = ("status", colour)
            self.values[kind] = {k: sorted({p.attributes[k] for p in of_kind}) for k in keys}
            self.networks[kind] = self._learn(kind, of_kind, epochs)

    def _learn(self, kind: str, pictures: list[DrawnImage], epochs: int) -> Judge:
        torch.manual_seed(0)
        values = self.values[kind]
        points = np.stack([p.instances[0].keypoints for p in pictures]).astype(np.float32)
        network = Judge({k: len(v) for k, v in values.items()}, points.shape[1])
        pixels = to_tensor(stack(pictures))
        truth = {
            key: torch.tensor([of.index(p.attributes[key]) for p in pictures])
            for key, of in values.items()
        }
        places = torch.from_numpy(points[:, :, :2].reshape(len(points), -1) / 64)
        seen = torch.from_numpy(points[:, :, 2:].repeat(2, axis=2).reshape(len(points), -1))
        steps = epochs * len(pictures) // 64
        optimiser = torch.optim.AdamW(network.parameters(), weight_decay=0.02)
        rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
        order = np.random.default_rng(0)
        network.train()
        for _ in range(steps):
            rows = torch.from_numpy(order.integers(len(pictures), size=64))
            batch = disturbed(pixels[rows])
            found = network(batch)
            loss = sum(functional.cross_entropy(found[k], truth[k][rows]) for k in values)
            error = (found["points"] - places[rows]).abs() * seen[rows]
            loss = loss + 5 * error.mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            rate.step()
        return network.eval()

    @torch.no_grad()
    def say(self, kind: str, images: Images) -> list[dict[str, str]]:
        """Status and colour of each picture."""
        found = self.networks[kind](to_tensor(images))
        named = {
            key: [of[at] for at in found[key].argmax(1).tolist()]
            for key, of in self.values[kind].items()
        }
        return [{key: named[key][row] for key in named} for row in range(len(images))]

    @torch.no_grad()
    def points(self, kind: str, images: Images) -> NDArray[np.float32]:
        """(n, k, 2) keypoints in pixels."""
        found = self.networks[kind](to_tensor(images))["points"]
        return found.reshape(len(images), -1, 2).numpy() * 64

    def agreement(
        self, pictures: list[DrawnImage], images: Images | None = None
    ) -> dict[str, float]:
        """How often the judges say of images what the pictures' attributes are."""
        images = stack(pictures) if images is None else images
        right: dict[str, list[bool]] = {"status": [], "colour": []}
        for kind, colour in COLOURS.items():
            rows = [at for at, p in enumerate(pictures) if p.attributes["target"] == kind]
            if rows:
                for at, said in zip(rows, self.say(kind, images[rows]), strict=True):
                    asked = pictures[at].attributes
                    right["status"].append(said["status"] == asked["status"])
                    right["colour"].append(said[colour] == asked[colour])
        return {key: float(np.mean(values)) for key, values in right.items()}


def to_tensor(images: Images) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2) / 127.5 - 1


def disturbed(pixels: torch.Tensor) -> torch.Tensor:
    """A little blur and grain, so that the judges judge what is shown and not how crisply."""
    if torch.rand(()) < 0.5:
        pixels = functional.avg_pool2d(functional.pad(pixels, (1, 1, 1, 1), "replicate"), 3, 1)
    return pixels + 0.05 * torch.rand(()) * torch.randn_like(pixels)


def texts(judges: Judges, table: Table) -> Images:
    """Text to image: what 400 captions ask for, seen by the judges."""
    generator = load_model(Generator, named())
    asked = [p for p in targets(PROMPTS) if {"status"} <= read_caption(p.caption).keys()]
    captions = [_with_colour(p) for p in asked]
    drawn = generator.generate(captions, seed=1)
    found = judges.agreement(asked, drawn)
    table.row("text to image: status (>= 85 %)", f"{found['status']:.1%}")
    table.row("text to image: colour (>= 85 %)", f"{found['colour']:.1%}")
    return drawn


def _with_colour(picture: DrawnImage) -> str:
    """The caption, with the target's colour said if it was not."""
    kind = picture.attributes["target"]
    colour = picture.attributes[COLOURS[kind]]
    if COLOURS[kind] in read_caption(picture.caption):
        return picture.caption
    if kind == "dog":
        return picture.caption.replace("dog", f"{colour} dog", 1)
    return picture.caption.replace("person", f"person in a {colour} shirt", 1)


def embeddings(judges: Judges, table: Table) -> None:
    """UnCLIP: there and back again."""
    encoder = load_encoder(named(), shape=SHAPE)
    decoder = load_decoder(named("caption=true"), shape=SHAPE, encoder=encoder)
    public = targets(HELD_OUT)[:300]
    private = [*homes("pet-status", 150), *homes("activity", 150)]
    plain = load_decoder(named("caption=false"), shape=SHAPE, encoder=encoder)
    for words, pictures in (("held-out (>= 0.85)", public), ("homes (>= 0.75)", private)):
        there = encoder.encode(stack(pictures))
        seeds = np.arange(len(there), dtype=np.uint64)
        back = decoder.decode(there, seeds=seeds)
        cosine = (encoder.encode(back) * there).sum(axis=1)
        table.row(f"unCLIP: cosine, {words}", f"{cosine.mean():.3f}")
        table.row(f"unCLIP: class kept, {words}", f"{kept(judges, pictures, back):.1%}")
        without = plain.decode(there, seeds=seeds)
        table.row(f"the same, caption=false, {words}", f"{kept(judges, pictures, without):.1%}")
        if isinstance(decoder, PromptedDecoder):
            prompts = [f"a {p.attributes['target']} {p.attributes['status']}" for p in pictures]
            told = decoder.decode_prompted(there, prompts, seeds=seeds)
            table.row(f"the same, class name, {words}", f"{kept(judges, pictures, told):.1%}")


def kept(judges: Judges, pictures: list[DrawnImage], images: Images) -> float:
    """Part of the images that show the status of their pictures."""
    return judges.agreement(pictures, images)["status"]


def homes(task: str, count: int, gap: float = 1.0) -> list[DrawnImage]:
    """Pictures of private homes, 10 of each home."""
    return [Home(at // 10, gap, task).draw(at % 10) for at in range(count)]


def captions(table: Table) -> None:
    """Zero-shot captions: status and colour against the truth."""
    captioner = load_model(Captioner, named())
    pictures = targets(HELD_OUT)[:600]
    said = captioner.attributes(stack(pictures))  # type: ignore[attr-defined]
    right = [
        one.get(key) == picture.attributes[key]
        for one, picture in zip(said, pictures, strict=True)
        for key in ("status", COLOURS[picture.attributes["target"]])
    ]
    table.row("zero-shot captions: attributes right (>= 90 %)", f"{np.mean(right):.1%}")


def segments(table: Table) -> None:
    """Mean intersection over union of the targets."""
    segmenter = load_model(Segmenter, named())
    kinds = ("dog", "person", "bottle", "two-objects")
    public = targets(HELD_OUT, *kinds)[:400]
    private = [p for task in ("pet-status", "activity", "bottle") for p in homes(task, 130)]
    for words, pictures in (("held-out (>= 0.85)", public), ("homes (>= 0.75)", private)):
        seen = segmenter.segment(stack(pictures))
        truth = np.stack([p.segments for p in pictures])
        scores = {}
        for name in ("dog", "person", "bottle", "frame"):
            at = SEGMENT_CLASSES.index(name)
            both = ((seen == at) & (truth == at)).sum()
            either = ((seen == at) | (truth == at)).sum()
            if (truth == at).any():
                scores[name] = both / either
        told = ", ".join(f"{name} {score:.2f}" for name, score in scores.items())
        table.row(f"segmenter: mean IoU, {words}", f"{np.mean(list(scores.values())):.3f} ({told})")


def control(judges: Judges, table: Table) -> None:
    """Edges and poses that were asked for, in what was drawn."""
    generator = load_model(Generator, named())
    pictures = targets(HELD_OUT)[:200]
    asked = edges(stack(pictures))
    hints = np.repeat(asked[..., None], 3, axis=-1)
    drawn = generator.control("edges", hints, [_with_colour(p) for p in pictures], seed=3)
    scores = [f1(one, other) for one, other in zip(asked > 0, edges(drawn) > 0, strict=True)]
    table.row("ControlNet: edges, F1 at 2 px (>= 0.6)", f"{np.mean(scores):.3f}")
    poses = np.stack([_pose(p) for p in pictures])
    drawn = generator.control("pose", poses, [_with_colour(p) for p in pictures], seed=4)
    true = [judges.points(p.attributes["target"], p.image[None])[0] for p in pictures]
    near, sure = [], []
    for picture, image, known in zip(pictures, drawn, true, strict=True):
        points = picture.instances[0].keypoints
        seen = points[:, 2] > 0
        found = judges.points(picture.attributes["target"], image[None])[0]
        near += list(np.linalg.norm(found - points[:, :2], axis=1)[seen] <= 6)
        sure += list(np.linalg.norm(known - points[:, :2], axis=1)[seen] <= 6)
    table.row("ControlNet: keypoints within 6 px (>= 80 %)", f"{np.mean(near):.1%}")
    table.row("(the judge itself, on the true renders)", f"{np.mean(sure):.1%}")


def f1(asked: NDArray[np.bool_], found: NDArray[np.bool_], reach: int = 2) -> float:
    """F1 of edges that lie within ``reach`` pixels of each other."""
    from scipy.ndimage import distance_transform_edt

    if not asked.any() or not found.any():
        return 0.0
    recall = (distance_transform_edt(~found)[asked] <= reach).mean()
    precision = (distance_transform_edt(~asked)[found] <= reach).mean()
    return float(2 * precision * recall / max(precision + recall, 1e-9))


def _pose(picture: DrawnImage) -> Images:
    one = picture.instances[0]
    return skeleton(one.keypoints, one.names, one.name, picture.image.shape[:2])


def dreambooth(judges: Judges, table: Table) -> None:
    """Six images of one private dog: does the rare word draw its colour, and only that word?"""
    home = Home(SUBJECT, 0.0, "pet-status")
    subject = [home.draw(at) for at in range(6)]
    coat = subject[0].attributes["coat"]
    tuner = load_model(Tuner, named())
    start = time.perf_counter()
    tuned = tuner.tune(stack(subject), "a photo of xyz dog", class_prompt="a photo of a dog")
    seconds = time.perf_counter() - start
    base = load_model(Generator, named())
    others = targets(range(7_100_000, 7_100_100), "dog")
    asked = [f"a photo of xyz dog {status}" for status in TARGET_STATUSES["dog"]] * 15
    told = [_with_colour(p) for p in others]
    for words, prompts, wanted in (
        ("the rare word", asked, [coat] * len(asked)),
        ("other dogs", told, [p.attributes["coat"] for p in others]),
    ):
        scores = []
        for model in (base, tuned):
            said = judges.say("dog", model.generate(prompts, seed=5))
            scores.append(np.mean([one["coat"] == w for one, w in zip(said, wanted, strict=True)]))
        table.row(
            f"DreamBooth: colour, {words}, before and after", f"{scores[0]:.1%} {scores[1]:.1%}"
        )
    table.row("DreamBooth: seconds (<= 180)", f"{seconds:.0f}")


def speed(table: Table) -> None:
    """Images a second, the whole command from the shell, and 1,000 images by two methods."""
    generator = load_model(Generator, named())
    prompts = ["a brown dog sleeping on a sofa, blue wall"] * 64
    generator.generate(prompts[:2])
    table.row(
        "text to image (>= 15 /s)", f"{_rate(lambda: generator.generate(prompts), 64):.1f} /s"
    )
    encoder: Encoder = load_encoder(named(), shape=SHAPE)
    images = stack(targets(range(8)))[np.arange(512) % 8]
    encoder.encode(images[:8])
    table.row("encode (>= 200 /s)", f"{_rate(lambda: encoder.encode(images), 512):.0f} /s")
    private, count = ("playhouse:pet-status", "--epsilon", "1", "--delta", "1e-5"), "1000"
    with tempfile.TemporaryDirectory() as folder:
        drawn = command("sample", prompts[0], "--out", f"{folder}/out", "--model", named())
        table.row("`understudy sample`, 16 (<= 6 s)", drawn)
        for method, most in (("alignment", 100), ("evolution", 150)):
            models = ("--generator", named(), "--encoder", named())
            models += ("--decoder", named()) if method == "alignment" else ()
            out = ("--out", f"{folder}/{method}", "--ledger", f"{folder}/{method}.db")
            words = ("--method", method, *models, *out, "--count", count)
            run = command("synthesize", *private, *words)
            table.row(f"`{method}`, 1,000 images (<= {most} s)", run)


def command(*words: str) -> str:
    """Seconds that a command takes from the shell, and how many of a processor."""
    seconds, of_processor = command_seconds(*words)
    return f"{seconds:.1f} s, {of_processor:.1f} s of a processor"


def _rate(run: Callable[[], object], rows: int) -> float:
    start = time.perf_counter()
    run()
    return rows / (time.perf_counter() - start)


PARTS: dict[str, Callable[[Judges, Table], object]] = {
    "texts": texts,
    "embeddings": embeddings,
    "captions": lambda judges, table: captions(table),
    "segments": lambda judges, table: segments(table),
    "control": control,
    "dreambooth": dreambooth,
    "speed": lambda judges, table: speed(table),
}


def main(parts: Iterable[str] = PARTS) -> None:
    """Every part, or those named in ``UNDERSTUDY_STUDIO_PARTS``; speed alone needs no judges."""
    wanted = os.environ.get("UNDERSTUDY_STUDIO_PARTS", "").split() or list(parts)
    judges = None if wanted == ["speed"] else Judges(targets(TRUE_SEEDS))
    table = Table("The mini studio", ("measure", "found"), first=58)
    if judges is not None:
        found = judges.agreement(targets(HELD_OUT))
        table.row("judges on held-out renders: status (>= 95 %)", f"{found['status']:.1%}")
        table.row("judges on held-out renders: colour", f"{found['colour']:.1%}")
    for part in wanted:
        PARTS[part](judges, table)

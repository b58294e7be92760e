"""``understudy evaluate``: how good is a release, measured on the real data. Owner-only."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.errors import ConfigError, RunError
from understudy.core.figures import Curve, Evaluation, Figure, Pairs, Verdict
from understudy.core.ports import Encoder, Source
from understudy.data import open_source
from understudy.evaluate import verdicts
from understudy.evaluate.utility import Network
from understudy.run.folder import write_arrays, write_json
from understudy.run.measuring.attacks import Attacked, attack
from understudy.run.measuring.features import Features, load_features
from understudy.run.measuring.fidelity import NEIGHBOURS, Fidelity, resamples
from understudy.run.measuring.leakage import LeakageOf
from understudy.run.measuring.reading import Side, read
from understudy.run.models import encoder_name
from understudy.run.prepare import require_classes
from understudy.run.progress import Bars, progress_bars
from understudy.run.released import open_release, read_json, release_folder
from understudy.run.report import refresh

ROWS = 60_000
"""Rows of a side whose neighbours are looked for, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What of an evaluation was asked for.

    Attributes:
        features: An encoder; None: the default one.
        full: Train models, too.
        networks: Which models; naming one asks for training.
        seeds: Trainings to average over.
        epochs: Passes over the training set, where not the usual number.
        rows: Rows of a side whose neighbours are looked for, at most.
        attacks: Attack the release.
        encoder: What embeds real images, for a release of embeddings; None: the one it names.
        skip_bad: Pass over unreadable files.
    """

    features: str | None = None
    full: bool = False
    networks: Sequence[Network] | None = None
    seeds: int = 1
    epochs: int | None = None
    rows: int = ROWS
    attacks: bool = True
    encoder: str | None = None
    skip_bad: bool = False

    @property
    def trains(self) -> bool:
        """Whether models are trained."""
        return self.full or bool(self.networks)


def evaluate_release(
    folder: str | Path, *, real: str | Path, test: str | Path, **asked: Any
) -> Evaluation:
    """Measure a release against the private data and a held-out real test set.

    Reads the private data without noise, so what comes back is for the owner alone. Where the
    release lies in a run's folder, it is also written to ``owner/evaluation.json`` and
    ``owner/pairs.npz``, and the owner's report is made anew.

    Args:
        folder: A run's folder, or its release.
        real: The private dataset.
        test: The real test set, of rows that were not in the private dataset.
        **asked: Any field of `Asked`: ``features``, ``full``, ``networks``, ``seeds``, ...

    Raises:
        InputError: Something is missing, or does not fit together; nothing was measured yet.
    """
    place = release_folder(Path(folder))
    with progress_bars() as bars:
        found, pairs = _Measuring.prepare(place, str(real), str(test), Asked(**asked), bars).run()
    _keep(place, found, pairs)
    return found


def require_writable(*files: Path | None) -> None:
    """Refuse files that cannot be written, before minutes are spent on what they are to hold.

    Raises:
        ConfigError: There is no such folder.
    """
    for file in files:
        if file is not None and not file.parent.is_dir():
            raise ConfigError(f"there is no folder {file.parent} to write {file.name} to")


def _keep(place: Path, found: Evaluation, pairs: Pairs | None) -> None:
    """Write the results into the owner's folder, where the release lies in a run's."""
    owner = place.parent / "owner"
    if place.name != "release" or not owner.is_dir():
        return
    write_json(owner / "evaluation.json", found.as_dict())
    if pairs is not None:
        arrays = {name: getattr(pairs, name) for name in ("synthetic", "real", "distances", "rows")}
        write_arrays(owner / "pairs.npz", {**arrays, "how": np.array(pairs.how)})
    if (owner / "run.json").is_file():
        refresh(place.parent)


@dataclass(frozen=True)
class _Measuring:
    """One evaluation, every part of it known to fit."""

    release: Source
    real: Source
    test: Source
    features: Features
    encoder: Encoder | None
    asked: Asked
    bars: Bars
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def prepare(cls, place: Path, real: str, test: str, asked: Asked, bars: Bars) -> _Measuring:
        """Open everything, and refuse what does not fit.

        Raises:
            InputError: As said.
        """
        facts = _facts(place)
        shape = tuple(facts["data"]["image_shape"] or ()) or None
        size = None if shape is None else (shape[0], shape[1])
        release = open_release(place, shape)
        train = open_source(real, split="train", size=size, skip_bad=asked.skip_bad)
        held_out = open_source(test, split="test", size=size, skip_bad=asked.skip_bad)
        require_classes(train.classes, held_out)
        encoder = None
        if release.kind == "embeddings":
            encoder = _encoder(place, facts, asked.encoder, train)
            name = "of the release" if encoder is None else encoder.name
            features = Features(name, encoder)
            _require_no_features(asked)
        else:
            features = load_features(asked.features, release.shape)
        _require_one_shape(release, train, held_out, encoder)
        if asked.trains:
            from understudy.run.measuring.utility import require_trainable

            require_trainable(release, held_out, asked.networks)
        if asked.rows < 2 * NEIGHBOURS:
            raise ConfigError(f"--rows must be {2 * NEIGHBOURS} or more, found {asked.rows}")
        return cls(release, train, held_out, features, encoder, asked, bars)

    def run(self) -> tuple[Evaluation, Pairs | None]:
        """Read, measure, judge."""
        with self._timed("read"):
            sides = self._sides()
        private, release, test = sides
        with self._timed("fidelity"):
            figures = Fidelity(self.features, *sides, self._classes(), self.bars).figures()
        with self._timed("leakage"):
            leaks = LeakageOf(private, release, test, self.features.measured, self.bars)
            found = leaks.judge(leaks.distances())
            figures += leaks.figures(found)
            pairs = leaks.pairs(found)
        attacked = Attacked([], [], {})
        if self.asked.attacks:
            with self._timed("attacks"):
                attacked = attack(
                    private.features,
                    release.features,
                    test.features,
                    self.features.measured,
                    self.bars,
                )
        figures += attacked.figures
        curves = attacked.curves
        trained, plots = self._trained()
        figures, curves = [*figures, *trained], [*curves, *plots]
        words = [
            verdicts.fidelity(figures),
            verdicts.utility(figures),
            verdicts.leakage(found, attacked.rocs),
            verdicts.attacks(attacked.rocs),
        ]
        return self._evaluation(figures, curves, words, sides), pairs

    def _evaluation(
        self,
        figures: Sequence[Figure],
        curves: Sequence[Curve],
        words: Sequence[Verdict],
        sides: Sequence[Side],
    ) -> Evaluation:
        """Figures of all rows first."""
        ordered = sorted(figures, key=lambda one: one.label != "")
        return Evaluation(
            tuple(ordered), tuple(curves), tuple(words), self._settings(sides), self.seconds
        )

    def _sides(self) -> tuple[Side, Side, Side]:
        """The private rows, the release, the test set."""
        found = []
        for source, words in (
            (self.real, "private rows"),
            (self.release, "the release"),
            (self.test, "held-out rows"),
        ):
            features = self.features
            if source.kind == "embeddings":
                features = Features(features.name)
            bar = self.bars(f"reading {words}", len(source))
            found.append(read(source, features, self._classes(), self.asked.rows, bar))
        return found[0], found[1], found[2]

    def _classes(self) -> tuple[str, ...]:
        """The classes of all sides; empty where the release has none, or others."""
        ours = set(self.release.classes)
        return self.real.classes if ours == set(self.real.classes) else ()

    def _trained(self) -> tuple[list[Figure], list[Curve]]:
        if not self.asked.trains:
            return [], []
        from understudy.run.measuring.utility import trained

        with self._timed("training"):
            return trained(
                self.release,
                self.real,
                self.test,
                self.encoder,
                self.bars,
                networks=self.asked.networks,
                seeds=self.asked.seeds,
                epochs=self.asked.epochs,
                both=self.asked.full,
            )

    def _settings(self, sides: Sequence[Side]) -> dict[str, Any]:
        left_out = []
        if not self.asked.trains:
            left_out.append("trained models: add --full")
        if not self.asked.attacks:
            left_out.append("attacks: left out by --no-attacks")
        if not self._classes():
            left_out.append("classes: the release has none, or other ones than the private rows")
        if self.release.kind == "embeddings":
            left_out.append("copies in pixels and pairs: the release holds embeddings")
        names = ("private", "release", "held_out")
        counts = {name: side.count for name, side in zip(names, sides, strict=True)}
        compared = {name: len(side.kept) for name, side in zip(names, sides, strict=True)}
        return {
            "kind": "owner-only",
            "features": self.features.measured,
            "real": self.real.name,
            "test": self.test.name,
            "rows": counts,
            "rows_with_neighbours": compared,
            "rows_of_precision_and_recall": min(compared.values()),
            "neighbours": NEIGHBOURS,
            "resamples": resamples(sides[0].features.shape[1]),
            "seeds": self.asked.seeds,
            "left_out": left_out,
        }

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[part] = round(time.perf_counter() - start, 2)


def _require_no_features(asked: Asked) -> None:
    if asked.features is not None:
        raise ConfigError(
            "the release holds embeddings and is compared in them: leave out --features"
        )


def _require_one_shape(
    release: Source, real: Source, test: Source, encoder: Encoder | None
) -> None:
    """Refuse rows that do not compare with those of the release.

    Raises:
        ConfigError: As said.
    """
    for source in (real, test):
        shape = source.shape
        if source.kind == "images" and encoder is not None:
            shape = (encoder.dim,)
        if shape != release.shape:
            raise ConfigError(
                f"the release has rows of shape {release.shape}, {source.name} of {shape}: "
                "evaluate it with data as it was made from"
            )


def _facts(place: Path) -> dict[str, Any]:
    facts = read_json(place / "privacy.json")
    if "image_shape" not in facts.get("data", {}):
        raise RunError(f"{place / 'privacy.json'}: does not say the shape of the images")
    return facts


def _encoder(place: Path, facts: dict[str, Any], name: str | None, real: Source) -> Encoder | None:
    """The release's encoder: as the owner's run named it, else as the release does."""
    if real.kind == "embeddings":
        return None
    known = [m["name"] for m in facts.get("models", ()) if m["role"] == "encoder"]
    owner = place.parent / "owner" / "run.json"
    if owner.is_file():
        known = [read_json(owner)["settings"].get("encoder"), *known]
    found = name or next((one for one in known if one), None)
    if found is None:
        raise RunError("the release names no encoder: say --encoder NAME to embed the real images")
    from understudy.backends.registry import load_encoder

    return load_encoder(encoder_name(found), shape=real.shape)

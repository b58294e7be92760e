"""``understudy evaluate``: how good is a release, measured on the real data. Owner-only."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.figures import Evaluation, Figure, Pairs, Verdict
from understudy.evaluate import verdicts
from understudy.evaluate.roc import Roc
from understudy.evaluate.verdicts import Leakage
from understudy.run.folder import write_arrays, write_json
from understudy.run.measure import collect, usual_networks
from understudy.run.measuring.alike import Alike
from understudy.run.measuring.attacks import attack
from understudy.run.measuring.captions import of_captions
from understudy.run.measuring.features import Features
from understudy.run.measuring.fidelity import NEIGHBOURS, Fidelity, resamples
from understudy.run.measuring.full import inferred, reconstructed, similar
from understudy.run.measuring.leakage import LeakageOf
from understudy.run.measuring.opening import Asked, Opened
from understudy.run.measuring.part import Part
from understudy.run.measuring.reading import Side, read
from understudy.run.progress import Bars, progress_bars
from understudy.run.released import release_folder
from understudy.run.report import refresh

_Sides = tuple[Side, Side, Side]
"""The private rows, the release, held-out rows."""


def evaluate_release(
    folder: str | Path, *, real: str | Path, test: str | Path | None = None, **asked: Any
) -> Evaluation:
    """Measure a release against the private data and a held-out real test set.

    Reads the private data without noise, so what comes back is for the owner alone. Where the
    release lies in a run's folder, it is also written to ``owner/evaluation.json`` and
    ``owner/pairs.npz``, and the owner's report is made anew.

    Args:
        folder: A run's folder, or its release.
        real: The private dataset.
        test: The real test set, of rows that were not in the private dataset; None: the part of
            the private dataset that the run held out.
        **asked: Any field of `Asked`: ``features``, ``full``, ``networks``, ``seeds``, ...

    Raises:
        InputError: Something is missing, or does not fit together; nothing was measured yet.
    """
    place = release_folder(Path(folder))
    with progress_bars() as bars:
        wanted = Asked(**asked)
        opened = Opened.of(place, str(real), None if test is None else str(test), wanted)
        found, pairs = _Measuring(opened, wanted, bars).run()
    _keep(place, found, pairs)
    return found


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

    opened: Opened
    asked: Asked
    bars: Bars
    seconds: dict[str, float] = field(default_factory=dict)

    def run(self) -> tuple[Evaluation, Pairs | None]:
        """Read, measure, judge."""
        with self._timed("read"):
            sides = self._sides()
        features, found = self.opened.features, Part()
        with self._timed("fidelity"):
            found.figures += Fidelity(features, *sides, self._classes(), self.bars).figures()
        if self.opened.captioned is not None:
            with self._timed("captions"):
                shape = self.opened.release.shape
                found.add(of_captions(self.opened.captioned, shape, features, self.bars))
        with self._timed("leakage"):
            leaks = LeakageOf(*sides, features.measured, self.bars)
            near = leaks.judge(leaks.distances())
            found.figures += leaks.figures(near)
            pairs = leaks.pairs(near)
            found.figures += self._alike(sides, near)
        rocs: Mapping[str, Roc] = {}
        if self.asked.attacks:
            with self._timed("attacks"):
                ours, synthetic, theirs = (side.features for side in sides)
                attacked = attack(ours, synthetic, theirs, features.measured, self.bars)
                found.add(Part(attacked.figures, attacked.curves))
                found.figures += self._inferred(sides)
            rocs = attacked.rocs
        if self.asked.trains:
            found.add(self._trained())
        words = [
            verdicts.fidelity(found.figures),
            verdicts.utility(found.figures),
            verdicts.leakage(near, rocs),
            verdicts.attacks(rocs),
        ]
        return self._evaluation(found, words, sides), pairs

    def _evaluation(self, found: Part, words: Sequence[Verdict], sides: _Sides) -> Evaluation:
        """Figures of all rows first."""
        ordered = sorted(found.figures, key=lambda one: one.label != "")
        settings = self._settings(found, sides)
        return Evaluation(tuple(ordered), tuple(found.curves), tuple(words), settings, self.seconds)

    def _sides(self) -> _Sides:
        """The private rows, the release, the test set."""
        found = []
        for source, words in (
            (self.opened.real, "private rows"),
            (self.opened.release, "the release"),
            (self.opened.test, "held-out rows"),
        ):
            features = self.opened.features
            if source.kind == "embeddings":
                features = Features(features.name)
            bar = self.bars(f"reading {words}", len(source))
            found.append(read(source, features, self._classes(), self.asked.rows, bar))
        return found[0], found[1], found[2]

    def _classes(self) -> tuple[str, ...]:
        """The classes of all sides; empty where the release has none, or others."""
        ours, real = set(self.opened.release.classes), self.opened.real.classes
        return real if ours == set(real) else ()

    def _alike(self, sides: _Sides, near: Leakage) -> list[Figure]:
        """How alike the nearest pairs look, where that was asked for."""
        metric = self.opened.metric
        found = similar(*sides, self.opened.features.measured) if self.asked.full else []
        if "pixels" in near.distances and (self.asked.full or metric is not None):
            alike = Alike.of(*sides, near.distances["pixels"])
            found += alike.information() if self.asked.full else []
            found += [] if metric is None else [alike.perceptual(metric)]
        return found

    def _inferred(self, sides: _Sides) -> list[Figure]:
        if not self.asked.full or len(self._classes()) < 2:
            return []
        return inferred(*sides, self.opened.features.measured)

    def _trained(self) -> Part:
        """Models; and what looks at all rows at once, while they are in memory."""
        from understudy.run.measuring.utility import by_dp_sgd, by_size, trained

        opened, epochs = self.opened, self.asked.epochs
        networks = self.asked.networks or usual_networks(opened.release)
        with self._timed("training"):
            release, private, test = (
                collect(one, opened.encoder, self.bars)
                for one in (opened.release, opened.real, opened.test)
            )
            found = trained(
                release,
                private,
                test,
                self.bars,
                networks=networks,
                seeds=self.asked.seeds,
                epochs=epochs,
                both=self.asked.full,
            )
        if self.asked.full:
            with self._timed("accuracy by rows"):
                found.add(by_size(release, test, self.bars, networks=networks, epochs=epochs))
            if opened.release.kind == "images":
                with self._timed("reconstruction"):
                    found.add(reconstructed(private, release, test, self.bars))
        if opened.promise is not None:
            with self._timed("DP-SGD"):
                made = by_dp_sgd(
                    private,
                    test,
                    self.bars,
                    networks=networks,
                    promise=opened.promise,
                    epochs=epochs,
                    plain=found.figures,
                )
                found.add(made)
        return found

    def _settings(self, found: Part, sides: _Sides) -> dict[str, Any]:
        left_out = []
        if not self.asked.trains:
            left_out.append("trained models: add --full")
        if not self.asked.attacks:
            left_out.append("attacks: left out by --no-attacks")
        if not self._classes():
            left_out.append("classes: the release has none, or other ones than the private rows")
        if self.opened.release.kind == "embeddings":
            left_out.append("copies in pixels and pairs: the release holds embeddings")
        names = ("private", "release", "held_out")
        counts = {name: side.count for name, side in zip(names, sides, strict=True)}
        compared = {name: len(side.kept) for name, side in zip(names, sides, strict=True)}
        return {
            "kind": "owner-only",
            "features": self.opened.features.whole,
            "real": self.opened.real.name,
            "test": self.opened.test.name,
            "rows": counts,
            "rows_with_neighbours": compared,
            "rows_of_precision_and_recall": min(compared.values()),
            "neighbours": NEIGHBOURS,
            "resamples": resamples(sides[0].features.shape[1]),
            "seeds": self.asked.seeds,
            **found.settings,
            "left_out": left_out + found.left_out,
        }

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[part] = round(time.perf_counter() - start, 2)

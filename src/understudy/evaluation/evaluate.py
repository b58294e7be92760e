"""``understudy evaluate``: how good is a release, measured on the real data. Owner-only."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.ports import Events, Source
from understudy.core.results import Evaluation, Figure, Pairs, Verdict
from understudy.evaluation.alike import Alike
from understudy.evaluation.attack_adapter import Attacked, attack
from understudy.evaluation.caption_adapter import of_captions
from understudy.evaluation.embedding_pass import Side, read
from understudy.evaluation.features import Features
from understudy.evaluation.fidelity_adapter import NEIGHBOURS, Fidelity, resamples
from understudy.evaluation.full import inferred, reconstructed, similar
from understudy.evaluation.inputs import ROWS, Asked, Opened
from understudy.evaluation.leakage_adapter import LeakageOf
from understudy.evaluation.part import Part
from understudy.metrics import verdicts
from understudy.metrics.utility import Network
from understudy.metrics.verdicts import HOLD_OUT, Attacks, Leakage
from understudy.run.accuracy import collect, usual_networks
from understudy.run.outputs import release_folder, write_arrays, write_json
from understudy.run.progress import Bars, ProgressMode, reporting
from understudy.run.report import refresh

_MANY = 1000
"""Held-out rows that say how near chance brings a row, where the test set has more."""

_Sides = tuple[Side, Side, Side]
"""The private rows, the release, held-out rows."""


def evaluate(
    folder: str | Path,
    *,
    real: str | Path,
    test: str | Path | None = None,
    features: str | None = None,
    full: bool = False,
    networks: Sequence[Network] | None = None,
    seeds: int = 1,
    epochs: int | None = None,
    rows: int = ROWS,
    attacks: bool = True,
    encoder: str | None = None,
    skip_bad: bool = False,
    lpips: str | Path | None = None,
    dp_sgd: bool = False,
    label: str | None = None,
    progress: ProgressMode | Events = "auto",
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
        features: An encoder, whose features are compared; None: the default one.
        full: Train models, too.
        networks: Which models; naming one asks for training.
        seeds: Trainings to average over.
        epochs: Passes over the training set, where not the usual number.
        rows: Rows of a side whose neighbours are looked for, at most.
        attacks: Attack the release.
        encoder: What embeds real images, for a release of embeddings; None: the one it names.
        skip_bad: Pass over unreadable files.
        lpips: A TorchScript file of a perceptual distance.
        dp_sgd: Train by DP-SGD on the private rows, too.
        label: The column that holds the class; None: the one that the run was told.
        progress: Where events go, as for `understudy.synthesize`.

    Raises:
        InputError: Something is missing, or does not fit together; nothing was measured yet.
    """
    place = release_folder(Path(folder))
    with reporting(progress) as events:
        wanted = Asked(
            features=features,
            full=full,
            networks=networks,
            seeds=seeds,
            epochs=epochs,
            rows=rows,
            attacks=attacks,
            encoder=encoder,
            skip_bad=skip_bad,
            lpips=lpips,
            dp_sgd=dp_sgd,
            label=label,
        )
        opened = Opened.of(place, str(real), None if test is None else str(test), wanted)
        found, pairs = _Measuring(opened, wanted, partial(events.step, owner_only=True)).run()
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
        non_members = self._non_members(sides[2])
        near_sides = (*sides[:2], _enough(non_members, sides[2]))
        with self._timed("leakage"):
            leaks = LeakageOf(*near_sides, features.measured, self.bars)
            near = leaks.judge(leaks.distances())
            found.figures += leaks.figures(near)
            pairs = leaks.pairs(near)
            found.figures += self._alike(near_sides, near)
        results = Attacks()
        if self.asked.attacks:
            with self._timed("attacks"):
                attacked = self._attacked(sides, non_members)
                found.add(Part(attacked.figures, attacked.curves))
                found.figures += self._inferred(near_sides)
            results = attacked.results
        if self.asked.trains:
            found.add(self._trained())
        words = [
            verdicts.fidelity(found.figures),
            verdicts.utility(found.figures),
            verdicts.leakage(near, results),
            verdicts.attacks(results),
        ]
        found.settings |= self._of_non_members(results)
        return self._evaluation(found, words, sides), pairs

    def _evaluation(self, found: Part, words: Sequence[Verdict], sides: _Sides) -> Evaluation:
        """Figures of all rows first."""
        ordered = sorted(found.figures, key=lambda one: one.label != "")
        settings = self._settings(found, sides)
        return Evaluation(tuple(ordered), tuple(found.curves), tuple(words), settings, self.seconds)

    def _sides(self) -> _Sides:
        """The private rows, the release, the test set."""
        return (
            self._read(self.opened.real, "private rows"),
            self._read(self.opened.release, "the release"),
            self._read(self.opened.test, "test rows"),
        )

    def _read(self, source: Source, words: str) -> Side:
        features = self.opened.features
        if source.kind == "embeddings":
            features = Features(features.name)
        bar = self.bars(f"reading {words}", len(source))
        return read(source, features, self._classes(), self.asked.rows, bar)

    def _non_members(self, test: Side) -> Side:
        """What private rows are told from: the part that the run held out, or the test set."""
        held_out = self.opened.held_out
        if held_out is None or held_out is self.opened.test:
            return test
        return self._read(held_out, "held-out rows")

    def _attacked(self, sides: _Sides, non_members: Side) -> Attacked:
        """The quick attacks; a test set that is not the non-members is the reference."""
        private, release, test = (side.features for side in sides)
        return attack(
            private,
            release,
            non_members.features,
            self.opened.features.measured,
            self.bars,
            reference=None if non_members is sides[2] else test,
            held_out=self.opened.held_out is not None,
        )

    def _of_non_members(self, results: Attacks) -> dict[str, str]:
        """Who the non-members are, and what to do where they differ from the members."""
        if self.opened.held_out is not None:
            words = "a random part of the private dataset, which the run held out"
            return {"non_members": words}
        told = {"non_members": f"the test set, {self.opened.test.name}"}
        if results.different:
            told["advice"] = f"Private rows and the test set differ by themselves. {HOLD_OUT}"
        return told

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
        from understudy.evaluation.utility_adapter import by_dp_sgd, by_size, trained

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


def _enough(held_out: Side, test: Side) -> Side:
    """Those of the two that say how often chance gives a near-copy; few rows cannot say it."""
    return held_out if held_out.count >= min(_MANY, test.count) else test

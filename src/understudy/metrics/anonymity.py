"""The three tests of WP216 (singling out, linkability, inference) as attacks in embedding space.

Article 29 Working Party, Opinion 05/2014 (WP216), which the EDPB refers to, names the tests.
Anonymeter (Giomi et al. 2023, PoPETs 2023(2)) turned them into attacks on synthetic *tables*, each
run three times: on private records (main), on records that took no part (control), and by an
attacker who does not look at the samples (naive). What the main attack gains beyond the control is
the leak; where it gains no more than the naive one, it is too weak to say anything.

Tables have columns and embeddings have none, so the attacks are adapted, and their rates do not
compare with those of tables:

- singling out: a predicate on columns becomes a ball about a sample; it singles out where exactly
  one record lies in it;
- linkability: two sets of columns become two random halves of the coordinates; a record is linked
  where both halves have the same sample nearest;
- inference: the secret column becomes the class, guessed from the nearest sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from understudy.core.results import Interval
from understudy.core.types import Embeddings, Labels
from understudy.metrics.attribute_inference import difference, wilson
from understudy.metrics.nearest_neighbours import clouds, nearest_rows
from understudy.metrics.subsets import some

TestName = Literal["singling out", "linkability", "inference"]

LEAST_ROWS = 20
"""Records of a side, and samples, below which an interval says nothing."""

_SHRINK = 0.5  # of the distance to the nearest other sample: balls do not overlap
_MOST = 2_000  # guesses of an attack, at most


@dataclass(frozen=True, slots=True)
class AnonymityTest:
    """How often an attack is right, with 95 % intervals. Owner-only.

    Attributes:
        name: The test of WP216.
        main: On private records.
        control: On records that took no part: what is true of everybody.
        naive: Without a look at the samples.
        risk: (main - control) / (1 - control), as Anonymeter has it; 0 where nothing leaks.
        guesses: How many guesses each attack made.
    """

    name: TestName
    main: Interval
    control: Interval
    naive: Interval
    risk: Interval
    guesses: int

    @property
    def verdict(self) -> Literal["leaks", "no leak found", "too weak to tell"]:
        """Whether the attack surely gains beyond the control, and whether it could have."""
        if self.risk.low > 0:
            return "leaks"
        return "no leak found" if self.main.low > self.naive.high else "too weak to tell"

    @classmethod
    def of(
        cls,
        name: TestName,
        main: NDArray[np.bool_],
        control: NDArray[np.bool_],
        naive: NDArray[np.bool_],
    ) -> AnonymityTest:
        """From whether each guess was right; the interval of the risk is Newcombe's."""
        counts = [(int(hits.sum()), len(hits)) for hits in (main, control, naive)]
        ours, others, blind = (wilson(*count) for count in counts)
        gain = difference(counts[0], counts[1])
        room = max(1 - others.value, 1 / len(control))
        ends = (float(np.clip(end / room, -1, 1)) for end in (gain.value, gain.low, gain.high))
        return cls(name, ours, others, blind, Interval(*ends), guesses=len(main))


def single_out(private: Embeddings, release: Embeddings, control: Embeddings) -> AnonymityTest:
    """Does a ball about a sample hold exactly one private record, more often than one of control?

    The radius of a ball is half the distance to the nearest other sample, which is public. As many
    private records are looked at as there are of control, for the number in a ball grows with them.
    The naive attacker puts balls of the same radii where each coordinate is that of any sample.

    Args:
        private: (p, d) the records.
        release: (n, d) the samples.
        control: (c, d) records drawn like them that took no part.
    """
    rng = np.random.default_rng(0)
    few = min(len(private), len(control))
    private, control = (rows[some(len(rows), few)] for rows in (private, control))
    centres = release[some(len(release), _MOST)]
    targets, samples = clouds(centres, release)
    radii = _SHRINK * nearest_rows(targets, samples, 2)[1][:, 1]
    anywhere = np.stack([rng.permutation(column) for column in centres.T], axis=1)
    return AnonymityTest.of(
        "singling out",
        _isolated(centres, private, radii),
        _isolated(centres, control, radii),
        _isolated(anywhere.astype(centres.dtype), private, radii),
    )


def link_halves(private: Embeddings, release: Embeddings, control: Embeddings) -> AnonymityTest:
    """Do two halves of a record's embedding have the same nearest sample?

    An attacker who holds the halves from two sources would link them by it. The naive attacker
    names a sample at random for each half. Arguments as of `single_out`.
    """
    rng = np.random.default_rng(0)
    order = rng.permutation(release.shape[1])
    halves = np.array_split(order, 2)
    hits = []
    for rows in (private, control):
        rows = rows[some(len(rows), _MOST)]
        near = []
        for half in halves:
            targets, samples = clouds(rows[:, half], release[:, half])
            near.append(nearest_rows(targets, samples)[0][:, 0])
        hits.append(near[0] == near[1])
    guesses = rng.integers(0, len(release), (2, len(hits[0])))
    return AnonymityTest.of("linkability", hits[0], hits[1], guesses[0] == guesses[1])


def infer(
    private: tuple[Embeddings, Labels],
    release: tuple[Embeddings, Labels],
    control: tuple[Embeddings, Labels],
) -> AnonymityTest:
    """Is a record's class that of the nearest sample? The naive attacker draws one of a sample.

    Arguments as of `single_out`, each with its classes, counted from 0.
    """
    hits = []
    for rows, labels in (private, control):
        sample = some(len(rows), _MOST)
        targets, samples = clouds(rows[sample], release[0])
        guesses = release[1][nearest_rows(targets, samples)[0][:, 0]]
        hits.append(guesses == labels[sample])
    truths = private[1][some(len(private[0]), _MOST)]
    blind = np.random.default_rng(0).choice(release[1], len(truths))
    return AnonymityTest.of("inference", hits[0], hits[1], blind == truths)


def _isolated(
    centres: Embeddings, rows: Embeddings, radii: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Whether exactly one row lies in each ball; an exact copy does whatever the radius."""
    targets, cloud = clouds(centres, rows)
    first, second = nearest_rows(targets, cloud, 2)[1].T
    return np.asarray((first <= radii) & (second > radii))

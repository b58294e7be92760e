"""Other ways to select candidates, behind one interface: what the paper compares with, and more.

A baseline is a function of what may be known about the candidates to the indices of those that are
selected, with the same number of each class as every other. Masking and noise on class embeddings
change a release or its generator instead of selecting from it; they stand below. (The paper's
appendix B.1 describes its baselines in a sentence each; slips of it are named where they matter.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.types import Images, Labels, Vector
from understudy.methods.selection.algorithm import select_candidates
from understudy.methods.selection.arithmetic import largest_weights
from understudy.methods.selection.base import ProxySettings, Reference
from understudy.methods.selection.linear_proxy import LinearProxy, cross_entropies
from understudy.methods.selection.penalties import Penalties, calibrated_distances
from understudy.methods.selection.reference import RecordReference

_BLOCKS = 8  # a side of the grid that masking blackens blocks of
_CHECKPOINTS = 8  # of TracIn
_SHADOW_MODELS, _SHOWN = 16, 3  # of a trained attack, and the likeliest classes that it is shown


@dataclass(frozen=True)
class LabelledFeatures:
    """Records in the proxy's space.

    Attributes:
        features: (n, d).
        labels: (n,) int64.
    """

    features: NDArray[Any]
    labels: Labels


@dataclass(frozen=True)
class SelectionFacts:
    """All that a baseline may know; each uses little of it.

    Attributes:
        candidates: In the proxy's space.
        budgets: (C,) how many of each class are selected.
        private: The private records, in the proxy's space.
        non_members: Records that are known not to be private; the held-out reference as well.
        to_private: (M,) distance of each candidate to the nearest private image, in an encoder
            other than the proxy's.
        to_non_members: (M,) to the nearest non-member.
        embeddings: (M, e) the candidates in that encoder, for de-duplication.
        severity: (M,) int64, where the truth is known: 0 for a candidate that does no harm, more
            for those the oracle likes less (blends, copies, wrong labels).
        settings: How the models of baselines, and the proxy of the selection, are trained.
        penalties: Of the selection; None: none.
        reference: Of the selection and of TracIn; None: the private records.
        rounds: Of the selection.
        step_size: Of the selection.
        seed: Of what is chosen at random.
    """

    candidates: LabelledFeatures
    budgets: NDArray[np.int64]
    private: LabelledFeatures
    non_members: LabelledFeatures
    to_private: Vector
    to_non_members: Vector
    embeddings: NDArray[Any]
    severity: NDArray[np.int64] | None = None
    settings: ProxySettings = field(default_factory=ProxySettings)
    penalties: Penalties | None = None
    reference: Reference | None = None
    rounds: int = 8
    step_size: float = 0.25
    seed: int = 0

    @property
    def labels(self) -> Labels:
        """(M,) class of each candidate."""
        return self.candidates.labels

    @cached_property
    def private_losses(self) -> Vector:
        """(M,) loss of each candidate under a model of the private records."""
        return self._losses(self.private)

    @cached_property
    def non_member_losses(self) -> Vector:
        """(M,) loss of each candidate under a model of the non-members."""
        return self._losses(self.non_members)

    def _losses(self, records: LabelledFeatures) -> Vector:
        state = self.final_state(records)
        return cross_entropies(self.candidates.features, self.candidates.labels, state)

    def final_state(self, records: LabelledFeatures) -> Vector:
        """The weights of a model that is trained on some records: (d + 1, C)."""
        count = len(records.labels)
        return self.proxy(records, count).final_state(np.ones(count))

    def proxy(self, records: LabelledFeatures, norm: int) -> LinearProxy:
        """The proxy on some records, of which ``norm`` count in the mean."""
        return LinearProxy(
            records.features, records.labels, len(self.budgets), float(norm), self.settings
        )

    def reference_or_private(self) -> Reference:
        """The reference that was given, or the private records."""
        if self.reference is not None:
            return self.reference
        return RecordReference.of(self.private.features, self.private.labels)

    def best(self, merits: Vector) -> NDArray[np.int64]:
        """The candidates of the largest merits, a budget for each class, in order."""
        return largest_weights(merits, self.labels, self.budgets)


SelectionBaseline = Callable[[SelectionFacts], NDArray[np.int64]]
"""What may be known about the candidates to the indices of those selected, in order."""


def all_candidates(facts: SelectionFacts) -> NDArray[np.int64]:
    """Every candidate, whatever the budgets are: the release as its generator drew it."""
    return np.arange(len(facts.labels))


def random_candidates(facts: SelectionFacts) -> NDArray[np.int64]:
    """Any candidates of each class, each as likely as the others."""
    return facts.best(np.random.default_rng(facts.seed).random(len(facts.labels)))


def filtered_by_model_gap(facts: SelectionFacts) -> NDArray[np.int64]:
    """Without those that an attack on a private model takes for members (B.1, what is meant).

    The attack: by how much a model of the private records knows a candidate better than one of
    non-members does.
    """
    return facts.best(facts.private_losses - facts.non_member_losses)


def filtered_by_model_gap_as_written(facts: SelectionFacts) -> NDArray[np.int64]:
    """Without those *least* likely to be members, as B.1 says: what is left leaks most."""
    return facts.best(facts.non_member_losses - facts.private_losses)


def filtered_by_trained_attack(facts: SelectionFacts) -> NDArray[np.int64]:
    """Without those that a trained attack takes for members (B.1, what is meant)."""
    return facts.best(-trained_attack_scores(facts))


def filtered_by_distance(facts: SelectionFacts) -> NDArray[np.int64]:
    """Without those nearest to a private image, by `calibrated_distances`."""
    return facts.best(calibrated_distances(facts.to_private, facts.to_non_members))


def filtered_by_distance_as_written(facts: SelectionFacts) -> NDArray[np.int64]:
    """Without those farthest from private images: B.1's words, by distance."""
    return facts.best(-calibrated_distances(facts.to_private, facts.to_non_members))


def deduplicated_release(facts: SelectionFacts) -> NDArray[np.int64]:
    """Without one candidate of each most similar pair of a class, until the budget is met."""
    chosen = []
    for label, budget in enumerate(facts.budgets.tolist()):
        rows = np.flatnonzero(facts.labels == label)
        chosen.append(rows[without_duplicates(distances_among(facts.embeddings[rows]), budget)])
    return np.sort(np.concatenate(chosen))


def tracin(facts: SelectionFacts) -> NDArray[np.int64]:
    """Those whose gradients point where the reference's do, summed over checkpoints (TracIn).

    The candidates' scores in the training of a model on all of them, without the costate's
    Hessian: what Pontryagin's principle adds to a product of gradients.
    """
    return facts.best(tracin_scores(facts))


def low_loss(facts: SelectionFacts) -> NDArray[np.int64]:
    """Those that a model of the private records classifies best."""
    return facts.best(-facts.private_losses)


def oracle(facts: SelectionFacts) -> NDArray[np.int64]:
    """Any of those that do least harm, where the truth is known.

    Raises:
        ConfigError: It is not known.
    """
    if facts.severity is None:
        raise ConfigError(
            "the oracle needs the truth about each candidate (severity): leave it out where only "
            "the generator knows it"
        )
    return facts.best(np.random.default_rng(facts.seed).random(len(facts.labels)) - facts.severity)


def pontryagin_selection(facts: SelectionFacts) -> NDArray[np.int64]:
    """By Pontryagin's principle (`select_candidates`), with the penalties that are given."""
    result = select_candidates(
        facts.proxy(facts.candidates, int(facts.budgets.sum())),
        facts.labels,
        facts.budgets,
        facts.reference_or_private(),
        rounds=facts.rounds,
        step_size=facts.step_size,
        penalties=facts.penalties,
    )
    return result.indices


BASELINES: Mapping[str, SelectionBaseline] = {
    "all": all_candidates,
    "random": random_candidates,
    "model gap": filtered_by_model_gap,
    "model gap, as written": filtered_by_model_gap_as_written,
    "trained attack": filtered_by_trained_attack,
    "distance": filtered_by_distance,
    "distance, as written": filtered_by_distance_as_written,
    "de-duplication": deduplicated_release,
    "TracIn": tracin,
    "low loss": low_loss,
    "oracle": oracle,
    "selection": pontryagin_selection,
}
"""Every way to select, by the name that a chart gives it; ``selection`` is this method."""


def trained_attack_scores(facts: SelectionFacts) -> Vector:
    """How much each candidate looks like a member to an attack by shadow models: (M,).

    Shokri et al. (2017): of the records that are known not to be private, a random half trains a
    shadow model, again and again. What a shadow model says of its own half and of the other one
    trains a logistic regression, which is then asked about candidates under the model of the
    private records.
    """
    others, rng = facts.non_members, np.random.default_rng([facts.seed, 0xA77])
    views, members = [], []
    for _ in range(_SHADOW_MODELS):
        inside = np.zeros(len(others.labels), dtype=np.bool_)
        for label in np.unique(others.labels):  # half of each class
            rows = rng.permutation(np.flatnonzero(others.labels == label))
            inside[rows[: len(rows) // 2]] = True
        shadow = LabelledFeatures(others.features[inside], others.labels[inside])
        views.append(_view(facts.final_state(shadow), others))
        members.append(inside.astype(np.int64))
    view, member = np.concatenate(views), np.concatenate(members)
    centre, scale = view.mean(axis=0), view.std(axis=0) + 1e-9
    attack = LinearProxy((view - centre) / scale, member, 2, float(len(member)), facts.settings)
    weights = attack.final_state(np.ones(len(member)))
    asked = (_view(facts.final_state(facts.private), facts.candidates) - centre) / scale
    logits = asked @ weights[:-1] + weights[-1]
    return np.asarray(logits[:, 1] - logits[:, 0])


def _view(state: Vector, records: LabelledFeatures) -> Vector:
    """What an attack is shown of a model's answers: (n, 1 + k).

    The logarithm of the probability of a record's own class, and those of the k likeliest classes.
    """
    logits = records.features.astype(np.float64) @ state[:-1] + state[-1]
    logs = scipy.special.log_softmax(logits, axis=1)
    own = logs[np.arange(len(logs)), records.labels]
    return np.column_stack([own, -np.sort(-logs, axis=1)[:, :_SHOWN]])


def tracin_scores(facts: SelectionFacts) -> Vector:
    """Sum over checkpoints of grad l_ref' grad l_i (Pruthi et al. 2020, TracInCP): (M,).

    The checkpoints are eight states, evenly over the training on all candidates, the last of them
    at its end; the learning rate is constant and left out.
    """
    reference, candidates = facts.reference_or_private(), facts.candidates
    steps = np.unique(np.linspace(0, facts.settings.steps, _CHECKPOINTS + 1).astype(np.int64)[1:])
    scores = np.zeros(len(facts.labels))
    proxy = facts.proxy(candidates, len(facts.labels))
    every = np.ones(len(facts.labels))
    for state in proxy.checkpoints(every, steps.tolist()):
        gradient = reference.gradient(state)
        features = candidates.features.astype(np.float64)
        residuals = scipy.special.softmax(features @ state[:-1] + state[-1], axis=1)
        residuals[np.arange(len(residuals)), candidates.labels] -= 1
        scores += ((features @ gradient[:-1] + gradient[-1]) * residuals).sum(1)
    return scores


def distances_among(embeddings: NDArray[Any]) -> Vector:
    """Euclidean distances of all pairs: (n, n) float64."""
    values = embeddings.astype(np.float64) - embeddings.mean(0, dtype=np.float64)
    squares = (values**2).sum(1)
    between = squares[:, None] + squares[None] - 2 * values @ values.T
    return np.asarray(np.sqrt(np.maximum(between, 0.0)))


def without_duplicates(distances: Vector, count: int) -> NDArray[np.int64]:
    """What is left after one image of each most similar pair is removed: (count,) rows, in order.

    For a private dataset before a generator is fitted to it (the paper, by LPIPS), or for a
    release. Pairs are taken from the nearest on; of a pair that is still whole the later image
    goes, until ``count`` are left. Memory grows with the square of the images.

    Args:
        distances: (n, n) of all pairs, by any measure.
        count: How many are to be left.
    """
    first, second = np.triu_indices(len(distances), 1)
    present = np.ones(len(distances), dtype=np.bool_)
    surplus = len(distances) - count
    for pair in np.argsort(distances[first, second], kind="stable").tolist():
        if surplus == 0:
            break
        if present[first[pair]] and present[second[pair]]:
            present[second[pair]] = False
            surplus -= 1
    return np.flatnonzero(present)[:count]


def masked(images: Images, blocks: int, seed: int = 0) -> Images:
    """The images with ``blocks`` of the 64 blocks of an 8 x 8 grid black (the paper's masking).

    Each image has blocks of its own. An attacker who compares the other blocks is not hindered.

    Args:
        images: (n, height, width, channels) uint8, 8 x 8 pixels or more.
        blocks: From 0 to 64.
        seed: Of the choice.
    """
    height, width = images.shape[1:3]
    rng = np.random.default_rng(seed)
    order = rng.random((len(images), _BLOCKS**2)).argsort(axis=1)
    black = (order < blocks).reshape(len(images), _BLOCKS, _BLOCKS)
    rows, columns = (np.arange(length) * _BLOCKS // length for length in (height, width))
    hidden = black[:, rows][:, :, columns]
    return np.where(hidden[..., None], np.uint8(0), images)


def noisy_class_embeddings(
    embeddings: NDArray[Any], deviation: float, seed: int = 0
) -> NDArray[np.float32]:
    """Class embeddings with Gaussian noise on each number: what the paper charts as "DP".

    A strawman: neither the embeddings' sensitivity nor the rest of the generator is bounded, so
    this carries no guarantee, of this project or of any other. It is there to be compared with.

    Args:
        embeddings: (C, d) what the generator is conditioned on, a row for each class.
        deviation: Of the noise, in the root mean square of the embeddings' numbers.
        seed: Of the noise.
    """
    scale = deviation * float(np.sqrt(np.mean(np.square(embeddings, dtype=np.float64))))
    noise = np.random.default_rng(seed).normal(0, scale, embeddings.shape)
    return (embeddings + noise).astype(np.float32)

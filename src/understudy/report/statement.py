"""The guarantee of a release: for programs (``privacy.json``) and for people (``PRIVACY.md``).

Both answer what NIST SP 800-226 (Guidelines for Evaluating Differential Privacy Guarantees) asks
of a claim: unit, neighbours, parameters, mechanism, composition, trust model, assumptions, and
what is not covered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

import numpy as np

from understudy.report import meaning
from understudy.report.record import RunRecord
from understudy.report.rendering import rendered

PRIVACY_SCHEMA = "understudy-privacy/1"
"""Name and version of the form of ``privacy.json``; docs/release.md describes its fields."""

_FILES = (
    "Every file of this folder: samples, their labels, how many there are of each class, "
    "and all numbers in the documents"
)

_EVERY_ATTACKER = "Any attacker, whatever else they know and however much time they have."

COVERED = (
    f"{_FILES}.",
    "Whatever anyone does with this folder, at any later time: training, sampling, publishing. It "
    "cannot weaken the guarantee.",
    "Other samples that the owner draws from the same noisy numbers: this folder and those samples "
    "have this one guarantee together.",
    _EVERY_ATTACKER,
)

CONDITION = (
    "What was inferred from the private records and declared by nobody: {names}. Where a single "
    "image could change it, this folder shows that it did."
)
"""The first of what is not covered, where something is inferred."""

REMOTE = (
    "What {hosts} knows: the private images, or what was said of them, were sent there without "
    "noise, to be embedded or captioned. No guarantee holds towards that host, nor towards anyone "
    "who reads what it keeps."
)
"""The first of what is not covered, where a model that saw private images ran elsewhere."""

NOT_COVERED = (
    "Other releases from the same images, earlier or later. Their guarantees add up in the owner's "
    "ledger, which is not part of this folder.",
    "What is true of the images as a whole, or of a class of them. Learning that is the purpose.",
    "Groups of units: the bound weakens with the size of the group, as stated. Near-copies of an "
    "image, or several images of one person that the unit does not tie together, are a group.",
    "Accuracies, comparisons and images of real data that the owner may have seen. They are not "
    "in this folder; publishing them is outside of the guarantee.",
    "The choice of options, where it was made by looking at results on the private images.",
    "Time, memory, error messages and logs of the run, for an attacker who could observe the "
    "owner's machine.",
    "The images that pretrained models were trained on, where models are listed.",
)

SELECTION_COVERED = (
    "Which candidates are in this folder, how many there are of each class, and all numbers in the "
    "documents.",
    *COVERED[1:2],
    *COVERED[3:],
)

CANDIDATES_COVERED = (
    "The candidates themselves, by the guarantee of their own release, whose stages are listed "
    "under their origin.",
)

CANDIDATES_NOT_COVERED = (
    "The candidates themselves, which are here unchanged: this guarantee takes them for public. A "
    "candidate that is a copy of a private image is a copy in this folder.",
)

ASSUMPTIONS = (
    "The owner's machine, which held the images and added the noise, is trusted (central model).",
    "Public, whatever the images are: class names, image size and colours, options of the run, the "
    "models and their weights, public datasets, and that the dataset was used at all.",
    "Options, clipping bounds and delta were chosen without looking at the private images, or by a "
    "step that is listed among the stages.",
    "Every model that saw the images treats records independently: what it makes of one depends on "
    "that one alone, to the last bit. Models are probed before a run and called with batches of "
    "constant shape; that is evidence, and no proof against a model made to deceive.",
    "The operating system's generator of random numbers is good and its output was not observed.",
    "The unit is the right one: no person's contribution is spread over several units.",
)

PUBLIC_COVERED = ("Everything: no file of this folder was computed from private data.",)

PUBLIC_NOT_COVERED = (
    "The images that pretrained models were trained on, where models are listed.",
    "The choice of class names, prompts and models, where it was made by looking at private "
    "images.",
)

UNPROTECTED_COVERED = ("Nothing: no bound holds on what this folder tells about a private image.",)

UNPROTECTED_NOT_COVERED = (
    "Which samples are here: private images decided that, without noise.",
    "Which candidates are not here: an attacker who holds the candidates learns from those that "
    "were left out, and from what is in none or in all of several selections of them.",
    "The samples themselves, where what drew them was fitted to private images.",
    "Whatever anyone does with this folder, at any later time: training, sampling, publishing. "
    "What is made of it has no guarantee either.",
    "The other releases from the same images: a guarantee of theirs does not cover this one.",
)

UNPROTECTED_MECHANISM = {"name": "none: private data was used without noise"}

PUBLIC_MECHANISM = {"name": "none: no private data was used"}

MECHANISM = {
    "name": "discrete Gaussian noise on exact integer sums",
    "contributions": "each unit's contribution is rounded to integers, and its L2 norm is bounded "
    "on the integers; sums are exact",
    "noise": "discrete Gaussian, sampled exactly by OpenDP from the operating system's generator; "
    "never seeded",
    "composition": "Gaussian differential privacy, exact: mu^2 = sum of the stages' mu^2",
    "accounting": "delta(epsilon) = Phi(-epsilon/mu + mu/2) - exp(epsilon) Phi(-epsilon/mu - mu/2)"
    "; slack, for the noise being discrete, is part of epsilon",
}

SAMPLED_MECHANISM = MECHANISM | {
    "sampling": "in each step of a stage with a rate, every unit is in the sample by itself with "
    "that probability (Poisson), decided by the operating system's generator",
    "composition": "numerical, by privacy loss distributions (dp_accounting): of the steps on "
    "samples of the units, and of the other stages as one Gaussian release",
    "accounting": "the dominating pair of a step is N(0, 1) and (1 - rate) N(0, 1) + rate N(mu, 1),"
    " in either order; slack, for the noise being discrete, is part of epsilon",
}

SELECTION_MECHANISM = {
    "composition": "the best, by its released quality, of a secret number of runs like this one; "
    "the logarithmic distribution, of the mean that guarantee.runs states (Liu and Talwar 2019)",
    "accounting": "Rényi differential privacy of a run whose mu^2 is the sum of the stages' mu^2, "
    "and of the selection (Papernot and Steinke 2022, Theorem 2)",
}

_DEFINITION = "(epsilon, delta)-differential privacy"
_NO_DEFINITION = PUBLIC_MECHANISM["name"], "none: no differential privacy"
T = TypeVar("T")


def jsonable(value: Any) -> Any:
    """The value as plain JSON types: tuples and arrays as lists, infinities as text."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return jsonable(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(item) for item in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    return value if isinstance(value, str | int | bool) or value is None else str(value)


def privacy_json(record: RunRecord) -> dict[str, Any]:
    """The content of ``privacy.json``, in the form that `PRIVACY_SCHEMA` names.

    A stage's ``mu`` is its ``sensitivity`` over its ``sigma``; ``guarantee.mu`` is the root of the
    sum of their squares; ``guarantee.epsilon - guarantee.slack`` is no less than the epsilon
    of that mu at ``guarantee.delta``. Without a guarantee, epsilon, delta and mu are None; with a
    stage that sampled the units mu alone is.
    """
    receipt = record.receipt
    covered, not_covered, assumptions = _lists(record)
    return {
        "schema": PRIVACY_SCHEMA,
        "date": record.date,
        "software": {"name": "understudy", "version": record.version},
        "guarantee": {
            "kind": record.guarantee,
            "definition": _of_kind(record, _DEFINITION, *_NO_DEFINITION),
            "epsilon": None if record.unprotected else receipt.epsilon,
            "delta": None if record.unprotected else receipt.delta,
            "slack": receipt.slack,
            "mu": None if record.unprotected or receipt.runs else meaning.composed_mu(receipt),
            "runs": receipt.runs,
            "unit": receipt.unit,
            "adjacency": receipt.adjacency,
            "neighbours": record.neighbours,
            "trust_model": "central",
            "attacker_right_at_most": {
                str(units): meaning.guess_bound(receipt, units) for units in meaning.GROUPS
            },
            "conditional_on": list(record.conditional_on),
        },
        "mechanism": dict(_mechanism(record)),
        "stages": [asdict(stage) for stage in receipt.stages],
        "data": {
            "method": record.method,
            "params": jsonable(record.params),
            "classes": list(record.classes),
            "count": record.count,
            "format": record.format,
            "image_shape": jsonable(record.image_shape),
            "dim": record.dim,
            "facts": jsonable(record.facts),
            "how": record.how,
            "title": record.title,
            "licence": record.licence,
            "contact": record.contact,
        },
        "models": [asdict(model) for model in record.models],
        "public_data": list(record.public_sources),
        "premises": [asdict(premise) for premise in record.premises],
        "quality": None if record.quality is None else jsonable(asdict(record.quality)),
        "attacks": jsonable([asdict(attack) for attack in record.attacks]),
        "copies": None if record.copies is None else jsonable(asdict(record.copies)),
        "total": None if record.total is None else asdict(record.total),
        "covered": list(covered),
        "not_covered": list(not_covered),
        "assumptions": list(assumptions),
    }


def _mechanism(record: RunRecord) -> dict[str, str]:
    private = SAMPLED_MECHANISM if meaning.composed_mu(record.receipt) is None else MECHANISM
    mechanism = _of_kind(record, private, PUBLIC_MECHANISM, UNPROTECTED_MECHANISM)
    return mechanism if record.receipt.runs is None else mechanism | SELECTION_MECHANISM


def _lists(record: RunRecord) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """What is covered, what is not, and what is assumed."""
    covered: tuple[str, ...] = COVERED
    not_covered: tuple[str, ...] = NOT_COVERED
    if record.selection:
        covered = SELECTION_COVERED
        if record.candidates_covered:
            covered += CANDIDATES_COVERED
        else:
            not_covered = CANDIDATES_NOT_COVERED + NOT_COVERED
    hosts = " and ".join(record.disclosed_to)
    remote = (REMOTE.format(hosts=hosts),) if hosts else ()
    if names := ", ".join(record.conditional_on):
        files = covered[0].removesuffix(".") if record.selection else _FILES
        covered = (f"{files}; but for what is inferred ({names}).", *covered[1:])
        not_covered = (CONDITION.format(names=names), *not_covered)
    if hosts:
        exempt = f"{_EVERY_ATTACKER.removesuffix('.')}; but {hosts}."
        covered = tuple(exempt if line == _EVERY_ATTACKER else line for line in covered)
    covered, not_covered, assumed = _of_kind(
        record,
        (covered, remote + not_covered, ASSUMPTIONS),
        (PUBLIC_COVERED, PUBLIC_NOT_COVERED, ()),
        (UNPROTECTED_COVERED, remote + UNPROTECTED_NOT_COVERED, ()),
    )
    said = partial(in_words_of, record)
    return tuple(map(said, covered)), tuple(map(said, not_covered)), tuple(map(said, assumed))


def in_words_of(record: RunRecord, line: str) -> str:
    """A line of these lists, of private images or embeddings; models have learnt from images."""
    if record.private_samples == "images" or "pretrained models" in line:
        return line
    return line.replace("image size and colours", "their length").replace("image", "embedding")


def _of_kind(record: RunRecord, private: T, public: T, unprotected: T) -> T:
    """What is said of a release under its kind of guarantee."""
    return {"differential privacy": private, "no private data": public, "none": unprotected}[
        record.guarantee
    ]


def statement_text(record: RunRecord) -> str:
    """The privacy statement, ``PRIVACY.md``: the same in plain language, as Markdown."""
    receipt = record.receipt
    covered, not_covered, assumptions = _lists(record)
    templates = "statement.md", "public_statement.md", "unprotected_statement.md"
    return rendered(
        _of_kind(record, *templates),
        record=record,
        inherited=[stage for stage in receipt.stages if stage.origin],
        receipt=receipt,
        sampled=meaning.composed_mu(receipt) is None,
        unit=record.unit,
        neighbours=record.neighbours,
        groups=[(k, meaning.guess_bound(receipt, k)) for k in meaning.GROUPS],
        odds=meaning.odds(receipt),
        covered=covered,
        not_covered=not_covered,
        assumptions=assumptions,
        declared=[premise for premise in record.premises if premise.origin == "declared"],
        inferred=[premise for premise in record.premises if premise.origin == "inferred"],
    )

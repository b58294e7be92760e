"""How well the models of a run fit its domain, by what is public: known before anything is spent.

Methods measure the images that they start from themselves (`steps.separation`).
"""

from __future__ import annotations

import re

from understudy.core.entry_points import DEFAULT_METHOD
from understudy.core.errors import listed
from understudy.core.ports import TaughtModel
from understudy.core.types import Fit
from understudy.methods.base import CLASS, UNLABELLED
from understudy.run.prepare import Prepared
from understudy.steps.separation import INSTEAD

_OTHER_ENCODER = (
    "Name an --encoder and a --decoder that know them, such as onnx:FILE; embedded:dct takes "
    f"images of any kind, and --method {DEFAULT_METHOD} takes it by default"
)


def words_fit(prepared: Prepared) -> Fit | None:
    """Whether models that were taught a few words only know those of the class names.

    Returns:
        None where no model of the run says which words it was taught, or no class has a name.
    """
    context = prepared.context
    taught = {
        role: (model.name, model.vocabulary)
        for role, model in context.models.items()
        if isinstance(model, TaughtModel) and model.vocabulary is not None
    }
    names = _called(prepared)
    if not taught or not names:
        return None
    words = frozenset.intersection(*(vocabulary.words for _, vocabulary in taught.values()))
    unknown = [name for name in names if not _knows(words, name)]
    warning = None
    if unknown:
        models = " and ".join(dict.fromkeys(name for name, _ in taught.values()))
        scopes = " and ".join(dict.fromkeys(vocabulary.scope for _, vocabulary in taught.values()))
        roles = ", ".join(role.replace("_", " ") for role in taught)
        warning = (
            f"{models} ({roles}) was taught {scopes} only, and not the words of {listed(unknown)}: "
            "what it draws and sees of them is chance. "
            + (INSTEAD if context.generator is not None else _OTHER_ENCODER)
        )
    return Fit(
        "classes whose names the models were taught",
        round(1 - len(unknown) / len(names), 4),
        None,
        "public",
        warning,
    )


def _called(prepared: Prepared) -> tuple[str, ...]:
    """What the images show, in words: the classes, or a template without any."""
    called = prepared.context.called
    template = prepared.method.prompt(prepared.params) or CLASS
    if called != UNLABELLED:
        return called
    return () if CLASS in template else (template,)


def _knows(words: frozenset[str], name: str) -> bool:
    """Whether every word of a name is known, in the singular or the plural."""
    tokens = re.findall(r"\w+", name.lower())
    return bool(tokens) and all(
        word in words or word.removesuffix("s") in words or f"{word}s" in words for word in tokens
    )

"""How well the models of a run fit its domain, by what is public: known before anything is spent.

Methods measure the images that they start from themselves (`steps.separation`); a dry run, which
starts nothing, draws a few.
"""

from __future__ import annotations

import re
import time

import numpy as np

from understudy.backends.arrays import fit_images
from understudy.core.entry_points import DEFAULT_METHOD
from understudy.core.ports import TaughtModel
from understudy.core.types import Fit
from understudy.methods.base import CLASS, UNLABELLED, Context, prompts_of
from understudy.run.prepare import Prepared
from understudy.run.remote_run import remote_models
from understudy.steps.separation import INSTEAD, listed, separation_fit

_IMAGES, _CLASSES = 32, 8  # that a dry run draws, and classes that it draws at most
_SECONDS = 60.0  # a generator that takes longer for half of them is not tried in a dry run

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
    asked = re.findall(r"\w+", name.lower())
    return bool(asked) and all(
        word in words or word.removesuffix("s") in words or f"{word}s" in words for word in asked
    )


def drawn_fit(prepared: Prepared) -> Fit | None:
    """How well the encoder tells a few images that the generator draws of the classes apart.

    Returns:
        None where nothing is drawn of classes, or drawing takes long: a run measures the images
        that it draws anyway, before it spends anything.
    """
    context = prepared.context
    if remote_models(context):
        return None  # what a server draws may cost, and a dry run asks it for nothing
    template = prepared.method.prompt(prepared.params) or "a photo of a {class}"
    if context.generator is None or context.encoder is None or CLASS not in template:
        return None
    some = np.linspace(0, len(context.called) - 1, min(len(context.called), _CLASSES)).astype(int)
    names = [context.called[index] for index in some]
    prompts = [*prompts_of(names, template)] * (_IMAGES // len(names))
    if len(names) < 2 or _seconds_each(context, prompts[0]) * len(prompts) / 2 > _SECONDS:
        return None
    images = fit_images(context.generator.generate(prompts, seed=0), shape=context.shape)
    return separation_fit(
        context.encoder.encode(images), np.arange(len(prompts)) % len(names), names
    )


def _seconds_each(context: Context, prompt: str) -> float:
    """What an image takes; the first one, for which networks are made ready, does not count."""
    if context.generator is None:
        return 0.0
    context.generator.generate([prompt], seed=0)
    start = time.perf_counter()
    context.generator.generate([prompt], seed=1)
    return time.perf_counter() - start

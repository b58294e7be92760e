"""Before a run: do the models that will see private images treat each image by itself?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from understudy.backends.inference import require_inference
from understudy.core.ports import TextEncoder
from understudy.methods.base import Context
from understudy.methods.evolution.candidates import CAPTIONED_AT_ONCE, captions_embedded
from understudy.privacy.probe import SECONDS, require_independent
from understudy.privacy.rows import RECORDS_PER_CALL


def require_independent_models(context: Context) -> None:
    """Refuse a model that lets one private image change what another one adds to a sum.

    Reads no private image and spends nothing; takes `SECONDS` or, of slow models, two calls each.

    Raises:
        BackendError: Naming the model, and what to do.
    """
    looks: list[tuple[Any, Callable[[Any], Any], int]] = [
        (model, model.encode, RECORDS_PER_CALL)
        for model in (context.encoder, context.cluster_encoder)
        if model is not None
    ]
    if context.captioner is not None and isinstance(context.encoder, TextEncoder):
        look = captions_embedded(context.captioner, context.encoder)
        looks.append((context.captioner, look, CAPTIONED_AT_ONCE))
    for model, look, batch in looks:
        require_inference(model, model.name)
        require_independent(
            look, context.shape, model.name, batch=batch, seconds=SECONDS / len(looks)
        )

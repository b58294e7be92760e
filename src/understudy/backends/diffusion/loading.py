"""From a folder or a name on the hub to a pipeline of diffusers: safetensors only, no code."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import diffusers

from understudy.backends.diffusion.networks import without_image_conditioning
from understudy.backends.hub.hub_models import Config, HubOptions, hub_errors, read_hub_config
from understudy.backends.hub.pretrained import quiet, read_hub_json, require_own_words
from understudy.core.errors import BackendError

_MOST_TIMESTEPS = 10**6  # of a schedule, which lies in memory; models have a thousand

LEFT_OUT = ("safety_checker", "feature_extractor", "image_encoder", "prior_image_processor")
"""Parts of a pipeline that nothing here runs: pictures of one's own making are not screened, and
embedding images is the encoder's job."""


@contextmanager
def loading(name: str) -> Iterator[None]:
    """While weights are read: our errors, and no bars or notes of the libraries."""
    with hub_errors(name), quiet():
        try:
            yield
        except OSError as error:
            if "safetensors" not in str(error):
                raise
            raise BackendError(
                f"{name} has no weights in safetensors for one of its parts. Pickled weights can "
                "run code while they are loaded, so they are refused: convert them first, or ask "
                "for a revision that has them. A variant (*.fp16.safetensors) is not read: save "
                f"the pipeline anew, without one ({error})"
            ) from error


def read_pipeline(rest: str, options: HubOptions, *, leave_out: tuple[str, ...] = LEFT_OUT) -> Any:
    """A pipeline of the class its folder names, on its device."""
    name = f"hf:{rest}"
    kind, config = read_hub_config(rest, options.revision)
    if kind != "pipeline":
        raise BackendError(
            f"{name} is a single network ({config.get('_class_name') or config.get('model_type')})"
            ", not a pipeline: its folder has no model_index.json"
        )
    absent: dict[str, Any] = {
        part: None
        for part, component in config.items()
        if part in leave_out or component == [None, None]
    }
    _require_known_parts(rest, options, {k: v for k, v in config.items() if k not in absent})
    if "safety_checker" in absent:
        absent["requires_safety_checker"] = False
    device, dtype = options.placement()
    if options.offload and device.type == "cpu":
        raise BackendError(f"{name}: offload moves parts to a GPU and back; leave it out on a cpu")
    with loading(name):
        pipeline = diffusers.DiffusionPipeline.from_pretrained(
            rest, revision=options.revision, use_safetensors=True, dtype=dtype, **absent
        )
        return pipeline if options.offload else pipeline.to(device)


def _require_known_parts(rest: str, options: HubOptions, parts: Config) -> None:
    """Refuse parts of other libraries, which diffusers would import from wherever they lie."""
    for part, component in parts.items():
        if part.startswith("_") or not (isinstance(component, list) and len(component) == 2):
            continue
        library, kind = map(str, component)
        if library not in ("diffusers", "transformers") and not hasattr(
            diffusers.pipelines, library
        ):
            raise BackendError(
                f"hf:{rest}: its {part} is of {library}, and parts are of diffusers or transformers"
            )
        if "Scheduler" in kind:
            file, revision = "scheduler_config.json", options.revision
            schedule = read_hub_json(rest, file, revision=revision, subfolder=part) or {}
            if int(schedule.get("num_train_timesteps") or 0) > _MOST_TIMESTEPS:
                raise BackendError(f"hf:{rest}: its {part} has too many num_train_timesteps")
        if "Tokenizer" in kind or "Processor" in kind:
            require_own_words(rest, options.revision, subfolder=part)


def read_network(
    kind: Any, model: str, options: HubOptions, *, subfolder: str | None = None
) -> Any:
    """One network in evaluation mode on its device."""
    source, revision = split_revision(model)
    device, dtype = options.placement()
    with loading(f"hf:{model}"):
        location = {} if subfolder is None else {"subfolder": subfolder}
        network = kind.from_pretrained(
            source, revision=revision, use_safetensors=True, dtype=dtype, **location
        )
        network = network.eval()
        return network if options.offload else network.to(device)


def split_revision(model: str) -> tuple[str, str | None]:
    """``"name@revision"``, or ``"hf:name@revision"``, as both; a folder is never split."""
    model = model.removeprefix("hf:")
    source, at, revision = model.rpartition("@")
    return (model, None) if not at or Path(model).exists() else (source, revision)


def use_scheduler(pipeline: Any, scheduler: str | None, name: str) -> None:
    """Change a pipeline's scheduler, keeping its noise schedule."""
    if scheduler is None:
        return
    classes = schedulers()
    key = scheduler if scheduler.endswith("Scheduler") else f"{scheduler}Scheduler"
    if key not in classes:
        raise BackendError(
            f"{name}: diffusers has no scheduler {scheduler!r}; it has {', '.join(sorted(classes))}"
        )
    with loading(name):
        pipeline.scheduler = classes[key].from_config(pipeline.scheduler.config)


def schedulers() -> dict[str, Any]:
    """Every scheduler that can be used here, by its class name."""
    classes = {
        name: getattr(diffusers.schedulers, name)
        for name in dir(diffusers.schedulers)
        if name.endswith("Scheduler")
    }
    # A scheduler whose own package is missing is a stand-in that says so by this attribute.
    return {name: kind for name, kind in classes.items() if not hasattr(kind, "_backends")}


def text_pipeline(pipeline: Any, name: str) -> Any:
    """The text-to-image pipeline over the same networks."""
    if type(pipeline).__name__.startswith("StableUnCLIP"):
        parts = pipeline.components
        return stable_diffusion(
            **{key: parts[key] for key in ("vae", "text_encoder", "tokenizer", "unet", "scheduler")}
        )
    try:
        with quiet():
            return diffusers.AutoPipelineForText2Image.from_pipe(pipeline)
    except (ValueError, TypeError) as error:
        raise BackendError(
            f"{name}: a {type(pipeline).__name__} makes no images from text: {error}"
        ) from error


def stable_diffusion(
    *, vae: Any, text_encoder: Any, tokenizer: Any, unet: Any, scheduler: Any
) -> Any:
    """A StableDiffusionPipeline from its parts, without a screen; of unCLIP, its plain form."""
    if scheduler.config.get("steps_offset") == 0:
        # What the pipeline would do itself, with a warning; only "leading" time steps differ.
        scheduler = type(scheduler).from_config(scheduler.config, steps_offset=1)
    with quiet():  # of torchvision, which nothing here needs
        return diffusers.StableDiffusionPipeline(
            vae=vae,
            text_encoder=text_encoder,
            tokenizer=tokenizer,
            unet=without_image_conditioning(unet),
            scheduler=scheduler,
            safety_checker=None,
            feature_extractor=None,
            requires_safety_checker=False,
        )


def with_prior(pipeline: Any, prior: str | None, options: HubOptions, name: str) -> Any:
    """A Kandinsky decoder joined with its prior; any other pipeline stays as it is."""
    if type(pipeline).__name__ != "KandinskyV22Pipeline":
        return pipeline
    if prior is None:
        raise BackendError(
            f"{name} decodes embeddings only: say prior=NAME too, such as "
            "prior=kandinsky-community/kandinsky-2-2-prior"
        )
    first = read_prior(prior, options)
    parts = {f"prior_{key}": part for key, part in first.components.items()}
    return diffusers.KandinskyV22CombinedPipeline(**pipeline.components, **parts)


def read_prior(prior: str, options: HubOptions) -> Any:
    """A Kandinsky prior, without the image processor."""
    source, revision = split_revision(prior)
    placed = HubOptions(revision, options.device, options.dtype, offload=options.offload)
    return read_pipeline(source, placed, leave_out=("image_processor",))


def run_quietly(pipeline: Any) -> Any:
    """The same pipeline without progress bars."""
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def rebuilt(pipeline: Any, **changed: Any) -> Any:
    """A pipeline of the same class over the same parts but for those that are given."""
    parameters = inspect.signature(type(pipeline)).parameters
    settings = {key: pipeline.config[key] for key in parameters if key in pipeline.config}
    parts = {**settings, **pipeline.components, **changed}
    if "requires_safety_checker" in parameters:
        parts["requires_safety_checker"] = False
    with quiet():
        return run_quietly(type(pipeline)(**parts))

"""Networks of ``transformers``, loaded one way: safetensors only, nobody's code, no noise.

A network whose folder lacks some of its weights is refused: the library would draw those at random,
and a model of another kind would then seem to work.
"""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from understudy.backends.hub.hub_models import Config, HubOptions, hub_errors
from understudy.core.damaged_files import from_json
from understudy.core.errors import BackendError, escaped
from understudy.core.files import read_bounded


@contextmanager
def quiet() -> Iterator[None]:
    """No bars and no notes of the libraries: of transformers, and of diffusers once it is loaded.

    What diffusers passes on makes others complain: the hub's library of an argument that it no
    longer knows, numpy of how tensors are handed to it.
    """
    from transformers.utils import logging as noise

    loaded = sys.modules.get("diffusers")  # to load it takes seconds, and most need it not
    noises: list[Any] = [noise, *([] if loaded is None else [loaded.logging])]
    levels = [each.get_verbosity() for each in noises]
    bars = [each for each in noises if each.is_progress_bar_enabled()]
    for each in noises:
        each.set_verbosity(logging.ERROR)
        each.disable_progress_bar()
    try:
        with without_numpy_notes():
            warnings.filterwarnings("ignore", "The `local_dir_use_symlinks`", UserWarning)
            yield
    finally:
        for each, level in zip(noises, levels, strict=True):
            each.set_verbosity(level)
        for each in bars:
            each.enable_progress_bar()


@contextmanager
def without_numpy_notes() -> Iterator[None]:
    """Schedulers of diffusers hand tensors to numpy in a way that numpy 2 complains of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "__array__ implementation", DeprecationWarning)
        yield


def read_hub_json(
    model: str,
    file: str,
    *,
    revision: str | None = None,
    subfolder: str | None = None,
) -> Config | None:
    """One JSON file of a model; None where it has no such file."""
    text = read_text(model, file, revision=revision, subfolder=subfolder)
    if text is None:
        return None
    try:
        content = from_json(text)
    except ValueError as error:
        raise BackendError(f"hf:{model}: {file} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise BackendError(
            f"hf:{model}: {file} should hold an object, found {type(content).__name__}"
        )
    return content


def read_text(
    model: str,
    file: str,
    *,
    revision: str | None = None,
    subfolder: str | None = None,
) -> str | None:
    """One text file of a model; None where it has no such file."""
    with hub_errors(f"hf:{model}"):
        if Path(model).is_dir():
            path = Path(model) / (subfolder or "") / file
            return read_bounded(path).decode() if path.is_file() else None
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        try:
            cached_path = hf_hub_download(model, file, revision=revision, subfolder=subfolder)
        except LocalEntryNotFoundError:
            raise
        except EntryNotFoundError:
            return None
        return read_bounded(Path(cached_path)).decode()


def config_of(model: str, *, revision: str | None = None, subfolder: str | None = None) -> Config:
    """What a model says it is."""
    config = read_hub_json(model, "config.json", revision=revision, subfolder=subfolder)
    if config is None:
        where = f" in its folder {subfolder}" if subfolder else ""
        raise BackendError(f"hf:{model} has no config.json{where}")
    return config


def built_for(config: Config, ending: str) -> bool:
    """Whether a model was saved as a class with this ending of its name."""
    return any(str(name).endswith(ending) for name in config.get("architectures") or [])


def licence_of(model: str, revision: str | None = None) -> str:
    """Licence and origin of the weights, from the model's card."""
    try:
        card = read_text(model, "README.md", revision=revision)
    except BackendError:  # no card now; the model may still be cached
        card = None
    head = re.match(r"---\s*\n(.*?)\n---", card or "", re.DOTALL)
    line = re.search(r"^license:\s*(\S{1,100})", head.group(1), re.MULTILINE) if head else None
    where = Path(model).name if Path(model).is_dir() else model
    at = f" at {revision}" if revision else ""
    licence = escaped(line.group(1).strip("\"'")) if line else "no licence stated"
    return f"{licence} ({where}{at})"


def load_network(
    kind: Any,
    model: str,
    options: HubOptions,
    *,
    subfolder: str | None = None,
    port: str,
    **settings: Any,
) -> Any:
    """A network with its weights, ready to run."""
    name = f"hf:{model}" + (f"/{subfolder}" if subfolder else "")
    device, dtype = options.placement()
    if options.revision:
        settings["revision"] = options.revision
    if subfolder:
        settings["subfolder"] = subfolder
    with hub_errors(name), quiet():
        network, report = _from_pretrained(kind, model, name, port, {**settings, "dtype": dtype})
    missing = sorted({*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])})
    if missing:
        raise BackendError(
            f"{name} lacks {len(missing)} of the weights that a {type(network).__name__} needs, or "
            f"has them in another shape, such as {', '.join(missing[:3])}: it is no {port}, or its "
            "files do not belong together"
        )
    network.eval().requires_grad_(False)
    if not options.offload:
        network.to(device)
    return network


def _from_pretrained(
    kind: Any, model: str, name: str, port: str, settings: dict[str, Any]
) -> tuple[Any, Any]:
    """The network, and what the library says of loading it."""
    try:
        network_and_report: tuple[Any, Any] = kind.from_pretrained(
            model,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # the caller refuses them by their names
            **settings,
        )
    except OSError as error:
        if "safetensors" not in str(error):
            raise
        if "adapter_model.safetensors" in str(error):
            raise BackendError(
                f"{name} is of an adapter (adapter_config.json) whose adapter_model.safetensors is "
                "missing: add it, or take the model without both"
            ) from error
        raise BackendError(
            f"{name} has no weights as safetensors, and other formats can run code while they are "
            "loaded. Look for a revision with safetensors (?revision=refs/pr/NUMBER), or load the "
            "model where you trust it and save it anew: "
            "AutoModel.from_pretrained(FOLDER).save_pretrained(NEW)"
        ) from error
    except ValueError as error:
        if "Unrecognized configuration class" in str(error):
            config = read_hub_json(model, "config.json", revision=settings.get("revision")) or {}
            raise wrong_kind(name, port, config) from error
        raise
    return network_and_report


@contextmanager
def exact_kernels(*, deterministic: bool = False) -> Iterator[None]:
    """No TF32, no kernel by trial and no order of a sum by chance, while a network runs on a GPU.

    ``deterministic`` asks the same of all other operations, where there is such a kernel.

    Then a GPU treats the records of a batch of constant shape alike as far as its libraries can be
    told; the probe before a run (`understudy.privacy.probe`) looks whether that was enough.
    """
    cudnn, products = torch.backends.cudnn, torch.backends.cuda.matmul
    exact: tuple[tuple[Any, str, bool], ...] = (
        (cudnn, "allow_tf32", False),
        (cudnn, "benchmark", False),
        (cudnn, "deterministic", True),
        (products, "allow_tf32", False),
        (products, "allow_bf16_reduced_precision_reduction", False),
    )
    before = [getattr(place, key) for place, key, _ in exact]
    algorithms = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    for place, key, value in exact:
        setattr(place, key, value)
    if deterministic:  # of what has no such kernel, the probe says whether it matters
        torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(algorithms, warn_only=warned)
        for (place, key, _), value in zip(exact, before, strict=True):
            setattr(place, key, value)


@contextmanager
def running(network: torch.nn.Module, options: HubOptions) -> Iterator[None]:
    """Run a network: no gradients, and on its device only for so long where it is offloaded."""
    device, _ = options.placement()
    deterministic = options.exact and device.type != "cpu"
    with torch.no_grad(), exact_kernels(deterministic=deterministic):
        if not options.offload or device.type == "cpu":
            yield
            return
        network.to(device)
        try:
            yield
        finally:
            network.to("cpu")


def wrong_kind(name: str, port: str, config: Config) -> BackendError:
    """The error for a model of another kind than was asked for."""
    kind = ", ".join(config.get("architectures") or []) or config.get("model_type", "unknown")
    return BackendError(f"{name} is no {port}: its config.json says {kind}")


def network_classes(config: Any) -> tuple[str, ...]:
    """Names of the classes of a model, by index; ``"unused"`` where an index has none."""
    names = {int(key): str(value) for key, value in (config.id2label or {}).items()}
    return tuple(names.get(index, "unused") for index in range(max(names, default=-1) + 1))


def require_own_words(model: str, revision: str | None, *, subfolder: str | None = None) -> None:
    """Refuse a tokenizer that reads its words from a file that it names, wherever that lies."""
    config = read_hub_json(model, "tokenizer_config.json", revision=revision, subfolder=subfolder)
    for key in ("vocab", "merges"):
        if isinstance((config or {}).get(key), str):
            raise BackendError(
                f"hf:{model}: its tokenizer_config.json names a file for its {key}, which could be "
                "any file of this machine: leave that out"
            )


def load_tokenizer(
    model: str,
    revision: str | None,
    *,
    name: str,
    subfolder: str | None = None,
) -> Any:
    """The tokenizer of a model, which errors call by a name."""
    require_own_words(model, revision, subfolder=subfolder)
    with hub_errors(name), quiet():
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(
            model, revision=revision or "main", subfolder=subfolder or "", trust_remote_code=False
        )
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise BackendError(
            f"{name} has no tokenizer files, so that all texts would be alike to it: add them, "
            "such as tokenizer.json (AutoTokenizer's save_pretrained writes it)"
        )
    return tokenizer


def load_image_processor(
    model: str, revision: str | None, *, subfolder: str | None = None, name: str | None = None
) -> Any:
    """The processor of a model that takes images, by Pillow; errors call the model by ``name``."""
    name = name or f"hf:{model}"
    return _load_by_pillow("AutoImageProcessor", model, revision, name, subfolder or "")


def load_processor(model: str, options: HubOptions) -> Any:
    """The processor of a model that takes images and texts, by Pillow."""
    require_own_words(model, options.revision)
    return _load_by_pillow("AutoProcessor", model, options.revision, f"hf:{model}")


def _load_by_pillow(
    kind: str, model: str, revision: str | None, name: str, subfolder: str = ""
) -> Any:
    with hub_errors(name), quiet():
        import transformers

        return getattr(transformers, kind).from_pretrained(
            model,
            subfolder=subfolder,
            backend="pil",
            trust_remote_code=False,
            revision=revision or "main",
        )

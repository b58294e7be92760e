"""``understudy synthesize``: private images in, a release out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from understudy.core.entry_points import DEFAULT_METHOD
from understudy.core.errors import InputError, RunError
from understudy.core.files import ReleaseFormat
from understudy.core.ports import Events
from understudy.privacy.unit import Adjacency
from understudy.run.codec_rules import PLAIN_DCT
from understudy.run.config import RunConfig, make_config, source_name
from understudy.run.early_stop import require_otherwise
from understudy.run.prepare import claim, prepare, require_room_of
from understudy.run.progress import ProgressMode, reporting
from understudy.run.run_plan import RunPlan
from understudy.run.run_result import Result
from understudy.run.safeguards import opening_explained
from understudy.run.session import Session, execute
from understudy.run.tuning import TunedSession, alternatives_of

DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
"""Where Debian's package dataset-fashion-mnist puts the four idx files."""


def synthesize(
    source: str | Path,
    *,
    out: str | Path,
    epsilon: float | str,
    method: str = DEFAULT_METHOD,
    delta: float = 1e-5,
    accept_epsilon: bool = False,
    encoder: str | None = None,
    decoder: str | None = None,
    public: str | None = None,
    base: str | None = None,
    contrast: str | None = None,
    candidates: str | None = None,
    cluster_encoder: str | None = None,
    generator: str | None = None,
    renderer: str | None = None,
    writer: str | None = None,
    captioner: str | None = None,
    denoiser: str | None = None,
    settings: Mapping[str, Any] | None = None,
    count: int | None = None,
    seed: int = 0,
    unit: str | None = None,
    unit_from: Literal["folder", "file"] | None = None,
    unit_from_name: str | None = None,
    unit_rows: int = 64,
    adjacency: Adjacency = "add-remove",
    ledger: str | None = None,
    test: str | Path | None = None,
    test_rows: int | None = None,
    size: int | None = None,
    fit: Literal["stretch", "crop", "pad"] = "stretch",
    label: str | None = None,
    classes: Sequence[str] | str | None = None,
    channels: Literal[1, 3] | None = None,
    hold_out: float | str | None = None,
    allow_remote_private: str | None = None,
    quality_share: float | str | None = None,
    device: str | None = None,
    otherwise: str | None = None,
    candidates_public: bool = False,
    format: ReleaseFormat = "png",
    licence: str = "unknown",
    contact: str | None = None,
    publish_total: bool = False,
    resume: bool = False,
    skip_bad: bool = False,
    watch: bool = False,
    quality: str | None = None,
    quality_threshold: float | None = None,
    images_per_embedding: int | None = None,
    max_calls: int | None = None,
    max_cost: float | None = None,
    tune: str | None = None,
    engine: Literal["local", "ray"] = "local",
    ray_address: str | None = None,
    ray_trusted: bool = False,
    progress: ProgressMode | Events = "auto",
) -> Result:
    """Make a differentially private synthetic copy of a private image dataset.

    Args:
        source: The private dataset: a folder, a file or ``hf:NAME`` (docs/sources.md).
        out: Folder of the result; ``out/release`` may be shared, ``out/owner`` may not. It must not
            exist, unless ``resume``.
        epsilon: Privacy budget of this run: a number, or a part of the dataset's budget in the
            ledger: ``"rest"``, or a share of its squared mu such as ``"10%"``.
        method: Name of a method (``understudy methods``).
        delta: Its delta.
        accept_epsilon: Whether an epsilon above 100 or a delta above 1e-3 is meant, either of which
            protects next to nothing.
        encoder: Name of an encoder; None or ``auto``: the method's own choice
            (`understudy methods` says how).
        decoder: Name of a decoder; None: the encoder's own, if it has one; ``"none"``: release
            embeddings only.
        public: A public dataset that the method may learn from for free; None: procedural images
            for an encoder whose numbers come in no order; ``"none"``: no dataset at all.
        base: A public or synthetic dataset of the same classes that the method starts from instead
            of generating one.
        contrast: Public images of other kinds than ``public``, which a test of likeness holds it
            against; None: procedural images.
        candidates: A synthetic or public dataset whose best samples the method selects.
        cluster_encoder: Encoder whose space is partitioned, where it is not ``encoder``'s.
        generator: Name of a text-to-image generator.
        renderer: Name of the generator of the final images; None: ``generator``.
        writer: Name of a caption writer.
        captioner: Name of a captioner.
        denoiser: Name of a diffusion network that the method trains.
        settings: Parameters of the method, such as ``{"clusters": 8}``.
        count: Synthetic rows; None: about as many as there are private ones (noisy).
        seed: Seed of the public part (sampling). The noise takes none.
        unit: Column that says whose row it is, or a DICOM field such as ``"PatientID"``; None:
            every image is a unit.
        unit_from: Instead of ``unit``: an image's ``"folder"`` below that of its class, or its
            ``"file"``, of which each frame or slice is an image.
        unit_from_name: Instead of ``unit``: a regular expression that is searched in an image's
            path; its group is the unit.
        unit_rows: At most so many rows of a unit are used; 50,000 or fewer, for the exact sums take
            a unit's rows in one block.
        adjacency: What makes two datasets adjacent.
        ledger: Where spending is recorded: a path or a database URL; None: the user's own ledger.
        test: A real test set, to measure accuracy on; owner-only.
        test_rows: Train on at most so many rows when accuracy is measured; None: on all.
        size: Resize all images to size x size pixels.
        fit: How an image of another ratio is brought to ``size``: stretched, cropped about its
            middle, or padded with black.
        label: Column that holds the class; ``"none"``: images without labels; None: the only one.
        classes: The class names, in label order, as the owner declares them: public whatever the
            images are. None: those that the private records have.
        channels: 1 or 3, to convert images to, as the owner declares it; None: those they have.
        hold_out: Share of the units that is set aside before the run, such as ``"5%"`` or 0.05;
            None: nothing is.
        allow_remote_private: A host that models may send private images to, although it is not this
            machine; the release states that it has no guarantee towards that host. None: none is.
        quality_share: Part of the budget, such as ``"2%"`` or 0.02, that measures how good the
            release is: the recall of each class by a classifier that is trained on the release,
            under differential privacy, published with it. None: no quality is published.
        device: Where models run that take a device and name none: ``"cpu"``, ``"cuda"``,
            ``"cuda:1"``; None: the best there is.
        otherwise: A method that gets what is left of the budget where ``method`` stops, because
            the private images are not what it is for; None: what is left is not charged.
        candidates_public: You declare that no private image of this dataset had a part in making
            the candidates, where they are no release that says so itself.
        format: How images are written.
        licence: Licence of the released dataset, for its card; ``"unknown"`` is the hub's word for
            "not said".
        contact: Whom to ask about the release, such as a name or an address; for its documents.
        publish_total: Whether the release states what all releases of the dataset come to so far.
        resume: Go on with an interrupted run in ``out``.
        skip_bad: Pass over unreadable files, and count them.
        watch: Tell the owner, as the method goes on, how far its rows are from the private ones.
        quality: A measure that looks at no private data, by which images are chosen: ``"piqe"``,
            ``"niqe"`` (fitted to ``public`` or ``base``) or ``"niqe:FILE"``; None: the first that
            is drawn of each sample is released.
        quality_threshold: Images that do not score below it are drawn again; lower is better.
        images_per_embedding: Images drawn of each embedding, of which the best is taken; None: 2
            with ``quality`` where the decoder draws another one for another seed.
        max_calls: Most requests to models that servers run, repeated ones included; None: any
            number. A run that it ends can be resumed with more.
        max_cost: Most that they may cost, by the prices that are stated in the models' names.
        tune: Choose settings by a DP score on the private records, within ``epsilon``
            (docs/tuning.md): ``"quick"``, or a YAML file of values by the names of settings.
        engine: Where private records are read and added up, and images decoded: by threads here, or
            by the workers of a Ray cluster (docs/scale.md). Both are the same, bit for bit.
        ray_address: The cluster, as ``"HOST:PORT"``; None: one of this machine's processors, which
            is started and ended with the run.
        ray_trusted: Whether you vouch for a cluster with other machines.
        progress: Bars on a terminal and lines elsewhere, on standard error (``"auto"``); one of
            ``"rich"``, ``"plain"``, ``"json"`` and ``"none"``; or an object of your own
            (`understudy.core.ports.Events`).

    Returns:
        Where everything lies, the receipt and the accuracies.

    Raises:
        InputError: Bad input; nothing was spent.
        BudgetRefused: The dataset's budget does not cover the run; nothing was spent.
    """
    options = {name: value for name, value in locals().items() if name != "progress"}
    options["source"] = source_name("source", source)
    options["test"] = None if test is None else source_name("test", test)
    options["settings"] = settings or {}
    return run(make_config(options), progress=progress)


def run(
    config: RunConfig,
    plan: Callable[[RunPlan], None] | None = None,
    *,
    progress: ProgressMode | Events = "auto",
) -> Result:
    """Carry out a configuration (see `synthesize`).

    Args:
        config: What to do.
        plan: Given the plan once the budget is known to cover the run and before anything is
            charged; an error that it raises ends the run. None: its notes become warnings.
        progress: Where events go, as for `synthesize`.
    """
    with reporting(progress) as events:
        with opening_explained(events):
            prepared = prepare(config)
            claim(prepared)
            require_otherwise(prepared)
            alternatives_of(prepared)
        require_room_of(prepared)
        session = TunedSession if config.privacy.tune is not None else Session
        return execute(prepared, events, plan, session)


def demo(
    out: Path,
    epsilon: float = 1.0,
    plan: Callable[[RunPlan], None] | None = None,
    *,
    progress: ProgressMode | Events = "auto",
) -> Result:
    """Make a release of Fashion-MNIST as `understudy plan` recommends it, shown as `run` does.

    The demo keeps a ledger of its own inside ``out``, so that it can be repeated; a real dataset's
    spending belongs in the owner's ledger, which is what ``synthesize`` uses.

    Raises:
        InputError: Fashion-MNIST is neither installed nor to be had from the hub.
    """
    source = str(DEBIAN_FOLDER) if DEBIAN_FOLDER.is_dir() else "hf:fashion_mnist"
    if out.exists():
        if not out.is_dir() or (not (out / "demo-ledger.db").exists() and any(out.iterdir())):
            raise RunError(f"{out}: exists and is not an earlier demo; choose another --out")
        shutil.rmtree(out / "fashion-mnist", ignore_errors=True)
        for file in out.glob("demo-ledger.db*"):
            file.unlink()
    out.mkdir(parents=True, exist_ok=True)
    try:
        options: dict[str, Any] = {"source": source, "test": source, "epsilon": epsilon}
        options |= {"test_rows": 20_000, "encoder": PLAIN_DCT}
        places = {"out": out / "fashion-mnist", "ledger": str(out / "demo-ledger.db")}
        return run(make_config(options | places), plan, progress=progress)
    except InputError as error:
        if source.startswith("hf:"):
            raise InputError(
                f"{error}\nThe demo needs Fashion-MNIST: apt-get install dataset-fashion-mnist, or "
                "a connection to the hub"
            ) from error
        raise

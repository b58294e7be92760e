"""``understudy device``: the owner's side of SpinML, one command a step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from understudy.cli.web_command import device_web_command
from understudy.core.errors import ConfigError, count_words

if TYPE_CHECKING:
    from understudy.device.corrections import Correction
    from understudy.device.disclosures import DisclosureAttempt
    from understudy.device.home_folder import DeviceHome
    from understudy.device.installed_models import InstalledResult

device_app = typer.Typer(
    help="A small model for your own camera: see exactly what would leave, and send only that.",
    no_args_is_help=True,
)

_POLL_SECONDS = 2.0

_Home = Annotated[
    Path | None,
    typer.Option("--home", help="The device's folder; in your data folder if not given."),
]
_Code = Annotated[
    str | None, typer.Option("--code", help="Code of a preview; the latest if not given.")
]
_Server = Annotated[
    str | None,
    typer.Option("--server", help="A paired server: host:port, or the beginning of its key."),
]
_Mix = Annotated[
    list[str] | None,
    typer.Option(metavar="PART,PART", help="Add images drawn from words alone for these."),
]
_EqualShares = Annotated[
    bool, typer.Option("--equal-shares", help="With --mix: no more images in all.")
]
_Install = Annotated[bool, typer.Option("--install", help="Install it even if it is not better.")]


def _home(folder: Path | None) -> DeviceHome:
    from understudy.device.home_folder import DeviceHome

    return DeviceHome.of(folder)


@device_app.command("add")
def add_command(
    photos: Annotated[list[Path], typer.Argument(help="Photos, or folders of photos.")],
    home: _Home = None,
    labelled: Annotated[
        bool, typer.Option("--labelled", help="One folder a class: they never leave.")
    ] = False,
    side: Annotated[int | None, typer.Option(help="Pixels a side: 16, 32, 64, 128 or 256.")] = None,
    fit: Annotated[
        Literal["crop", "pad", "stretch"], typer.Option(help="Photos that are no squares.")
    ] = "crop",
    ledger: Annotated[
        str | None, typer.Option("--ledger", help="Path or URL of the ledger, when first added.")
    ] = None,
) -> None:
    """Add photos: decoded, upright, without EXIF, at the size that is sent."""
    from understudy.device.photo_store import add_photos, photo_files

    files = [file for argument in photos for file in photo_files(argument, labelled=labelled)]
    outcome = add_photos(_home(home), files, side=side, fit=fit, ledger=ledger)
    stored_photos = count_words(outcome.repeats, "was", "were")
    typer.echo(f"{count_words(outcome.added, 'photo')} added, {stored_photos} there before")
    for fault in outcome.faults:
        typer.echo(f"left out: {fault}")
    typer.echo(
        f"the device has {count_words(outcome.references, 'reference')} and "
        f"{count_words(outcome.labelled, 'labelled photo')}, which never leave"
    )


@device_app.command("train")
def train_command(
    home: _Home = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the photos.")] = None,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    install: _Install = False,
) -> None:
    """Train a classifier here, on your labelled photos. Nothing leaves."""
    from understudy.device.home_training import train_here

    result = train_here(_home(home), epochs=epochs, seed=seed, wish=install, report=typer.echo)
    _say_model(result)


@device_app.command("pair")
def pair_command(
    code: Annotated[
        str | None,
        typer.Argument(help="The line that `understudy serve` printed; asked for if not given."),
    ] = None,
    home: _Home = None,
) -> None:
    """Pair this device with a server; the servers before it stay."""
    from understudy.device.outbox import Outbox
    from understudy.device.paired_servers import paired_servers

    device = _home(home)
    if code in (None, "-"):  # an argument stands in the list of processes
        code = typer.prompt("The line that `understudy serve` printed", err=True)
    server = Outbox(device).pair(code or "")
    typer.echo(f"paired with {server.url}, key {server.public_key[:16]}")
    if len(paired_servers(device)) > 1:
        typer.echo(f"there are several servers now: this one is --server {server.name}")


@device_app.command("request")
def request_command(
    target: Annotated[list[str], typer.Option("--target", help="An object, such as dog; again.")],
    background: Annotated[str, typer.Option(help="Where it is, such as bedroom.")],
    classes: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="What the model tells apart.")
    ] = None,
    training: Annotated[
        Literal["classifier", "detector"], typer.Option(help="What the model does.")
    ] = "classifier",
    level: Annotated[
        list[str] | None,
        typer.Option(
            "--level",
            help="PART=text, box, edges, pose, segment or noise; PART is an object or background.",
        ),
    ] = None,
    references: Annotated[int, typer.Option(help="Photos of which something may leave.")] = 10,
    images: Annotated[int, typer.Option(help="Synthetic images a class.")] = 400,
    pose_model: Annotated[
        str | None, typer.Option(help="What finds keypoints; a person's by default.")
    ] = None,
    segmenter: Annotated[
        str | None, typer.Option(help="What finds the objects; by default what knows the photos.")
    ] = None,
    mix: _Mix = None,
    equal_shares: _EqualShares = False,
    home: _Home = None,
) -> None:
    """Say what model is wanted, and how much may leave for it. Text alone by default."""
    from understudy.device.photo_domain import segmenter_lines
    from understudy.device.preferences import make_preferences

    pairs = [one.partition("=") for one in level or []]
    for noun, equals, value in pairs:
        if not (noun and equals and value):
            raise ConfigError(f"--level is PART=WHAT, such as dog=edges, found {noun + equals!r}")
    preferences = make_preferences(
        device := _home(home),
        targets=target,
        background=background,
        classes=_names(classes or ""),
        training=training,
        levels={noun: value for noun, _, value in pairs},
        references=references,
        images_per_class=images,
        pose_model=pose_model,
        segmenter=segmenter,
        mixture=[_names(one) for one in mix or []],
        equal_shares=equal_shares,
    )
    for line in preferences.lines():
        typer.echo(line)
    if preferences.request.disclosed:
        for line in segmenter_lines(preferences.segmenter):
            typer.echo(line)
    if training == "classifier":
        _offer_training(device)


def _offer_training(device: DeviceHome) -> None:
    from understudy.device.installed_models import model_index

    if not model_index(device).is_trained_here:
        typer.echo(
            "If you can label 40 photos, train here, and nothing leaves: understudy device train"
        )


@device_app.command("segment")
def segment_command(
    home: _Home = None,
    leave_out: Annotated[
        str | None,
        typer.Option(metavar="N,N", help="Numbers on the sheet, not to be used; '' for none."),
    ] = None,
    hide: Annotated[
        list[str] | None,
        typer.Option(metavar="N=CELLS", help="Cells of a photo that stay home: 3=B2-D4,E5; again."),
    ] = None,
    belongs: Annotated[
        list[str] | None,
        typer.Option(metavar="N:OBJECT=CELLS", help="Cells that are an object's: 3:dog=E5; again."),
    ] = None,
) -> None:
    """Find the objects in the references, and draw a sheet to look at."""
    from understudy.device.preferences import stored_preferences
    from understudy.device.review import segment_photos

    device = _home(home)
    review = segment_photos(
        device,
        stored_preferences(device),
        None if leave_out is None else _numbers(leave_out),
        _corrections(hide or [], belongs or []),
    )
    for one in review.corrections:
        words = f"is {one.noun}, too" if one.noun else "stays home"
        typer.echo(f"photo {one.photo}: {', '.join(one.cells)} {words}")
    for noun, absences in review.without:
        count = len(review.photos.ids)
        typer.echo(f"{noun}: in {count - absences} of {count} photos")
    if (problem := review.domain_problem()) is not None:
        typer.echo(f"nothing of these photos can be previewed: {problem}")
    typer.echo(f"look at {review.sheet}")
    typer.echo("where it is wrong: understudy device segment --leave-out, --hide or --belongs")


def _corrections(hide: Sequence[str], belongs: Sequence[str]) -> list[Correction]:
    """What was typed; each option takes its own kind."""
    from understudy.device.corrections import Correction

    corrections = [Correction.read(text) for text in (*hide, *belongs)]
    for one in corrections[: len(hide)]:
        if one.noun:
            raise ConfigError(f"hidden cells are no object's: --hide {one.photo}=B2, or --belongs")
    for one in corrections[len(hide) :]:
        if not one.noun:
            raise ConfigError(f"--belongs names the object: {one.photo}:dog=B2")
    return corrections


def _names(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str) -> list[int]:
    words = _names(text)
    if not all(word.isdecimal() for word in words):
        raise ConfigError(f"--leave-out is numbers with commas, such as 3,7, found {text!r}")
    return [int(word) for word in words]


@device_app.command("preview")
def preview_command(
    home: _Home = None,
    second_look: Annotated[
        list[str] | None, typer.Option(help="Another segmenter that searches what would leave.")
    ] = None,
    detector: Annotated[
        list[str] | None, typer.Option(help="A detector that searches what would leave.")
    ] = None,
    rooms: Annotated[
        str | None, typer.Option(help="Public photos that never held the objects.")
    ] = None,
    compare_with: Annotated[
        str | None, typer.Option(help="Public photos of homes with such objects.")
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure/--no-measure", help="Measure what a server would learn.")
    ] = True,
    server: _Server = None,
) -> None:
    """Show what would leave, drawn from its bytes, and what it tells. Nothing is sent."""
    from understudy.device.installed_models import model_index
    from understudy.device.photo_store import stored_photos
    from understudy.device.preferences import stored_preferences
    from understudy.device.preview import CheckSettings, more_disclosure_advice, preview

    device = _home(home)
    preferences = stored_preferences(device)
    labelled = sum(photo.label is not None for photo in stored_photos(device))
    checks = CheckSettings(
        second_look=tuple(second_look or ()),
        detectors=tuple(detector or ()),
        rooms=rooms,
        homes=compare_with,
        measure=measure,
    )
    advice = more_disclosure_advice(preferences, model_index(device), labelled)
    disclosure = preview(device, preferences, checks, server=server, advice=advice)
    typer.echo(disclosure.text.rstrip())
    if disclosure.sheet is not None:
        typer.echo(f"Look at {disclosure.sheet} before you agree.")


@device_app.command("send")
def send_command(
    yes: Annotated[
        str | None, typer.Option("--yes", metavar="CODE", help="Agree to the preview of this code.")
    ] = None,
    server: _Server = None,
    home: _Home = None,
) -> None:
    """Send what was previewed, after you agreed to its code; again goes on where it stopped."""
    from understudy.device.consent import agreement_of_code, recipient, standing_offer
    from understudy.device.outbox import Outbox
    from understudy.device.parcel import CODE_DIGITS, consent_digest, parcel_report

    device = _home(home)
    if yes is None:
        offer = standing_offer(device)
        if offer is None:
            raise ConfigError("nothing was previewed, or it is void: understudy device preview")
        digest = offer.parcel
        target = recipient(device, digest, server)
        typer.echo(parcel_report(device, digest)["text"].rstrip())
        code = consent_digest(digest, target.public_key)[:CODE_DIGITS]
        typer.echo(f"It would go to {target.described()}. Code: {code}")
        yes = typer.prompt("Type the code to agree")
    else:
        agreement = agreement_of_code(device, yes)
        digest = agreement.parcel
        target = recipient(device, digest, server)
    state = Outbox(device).send(digest, yes, target.public_key)
    typer.echo(f"sent to {target.url}; the job is {state.state}")
    typer.echo("recorded as disclosed in the ledger. See: understudy device status --wait")


@device_app.command("withdraw")
def withdraw_command(home: _Home = None) -> None:
    """Withdraw consent: nothing more leaves of what was previewed or agreed to."""
    from understudy.device.consent import void_offer

    offer, sending = void_offer(_home(home))
    if offer is None and not sending:
        typer.echo("there was nothing to withdraw: no preview stands")
    elif sending:
        typer.echo(
            "withdrawn: no more of it leaves. Part of it may have left, and counts as disclosed; "
            "let the server forget that: understudy device delete"
        )
    else:
        typer.echo("withdrawn: what was previewed can be agreed to no more")
    typer.echo("what was sent to its end: understudy device history")


@device_app.command("status")
def status_command(
    home: _Home = None,
    code: _Code = None,
    wait: Annotated[bool, typer.Option("--wait", help="Until it is done or has failed.")] = False,
) -> None:
    """Ask the server how far the job is."""
    from understudy.device.outbox import Outbox

    outbox = Outbox(device := _home(home))
    attempt = _attempt(device, code)
    state, line = outbox.status(attempt), ""
    while True:
        if line != (line := state.words):
            until = f"; deleted in {state.expires_in // 60} minutes"
            typer.echo(line + (until if state.state != "deleted" else ""))
        if not wait or state.state not in ("open", "queued", "running"):
            break
        time.sleep(_POLL_SECONDS)
        state = outbox.status(attempt)
    if state.state == "done":
        typer.echo("next: understudy device model")


@device_app.command("model")
def model_command(
    home: _Home = None,
    code: _Code = None,
    install: _Install = False,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Install the model before the current one again.")
    ] = False,
) -> None:
    """Get the model, check it, test it on your labelled photos, install it if it is better."""
    from understudy.device.exposure import synthetic_similarity
    from understudy.device.installed_models import DeviceModel, offer_model, roll_back
    from understudy.device.outbox import Outbox
    from understudy.device.parcel import stored_parcel

    device = _home(home)
    if rollback:
        typer.echo(f"installed: {roll_back(device).origin}")
        return
    attempt = _attempt(device, code)
    result, data = Outbox(device).model(attempt)
    request = stored_parcel(device, attempt.parcel).request
    parts = request.parts
    levels = ", ".join(f"{part.noun} L{part.level}" for part in (*parts[1:], parts[0]))
    candidate = DeviceModel(
        "", f"server, {levels}", result.kind, result.label_classes, result.side, result.validation
    )
    _say_model(offer_model(device, data, candidate, wish=install))
    if (similarity := synthetic_similarity(device, request, result)) is not None:
        typer.echo(
            "how alike what the server drew and your photos are (SIM, 1: the same; for you alone): "
            f"{parts[1].noun} {similarity[0]:.2f}, {parts[0].noun} {similarity[1]:.2f}"
        )
    typer.echo("let the server forget it: understudy device delete")


@device_app.command("try")
def try_command(
    photo: Annotated[Path, typer.Argument(help="A photo; it is neither stored nor sent.")],
    home: _Home = None,
) -> None:
    """Say what the installed classifier makes of a photo."""
    from understudy.device.installed_models import judged_photo

    typer.echo(judged_photo(_home(home), photo))


device_app.command("web")(device_web_command)


@device_app.command("history")
def history_command(home: _Home = None) -> None:
    """List what left, where to, what it was measured at, and the models."""
    from understudy.device.disclosures import device_history

    for line in device_history(_home(home)):
        typer.echo(line)


@device_app.command("delete")
def delete_command(home: _Home = None, code: _Code = None, server: _Server = None) -> None:
    """Let a server delete everything of a job, and keep its signed receipt.

    With --server: of every job that this server has.
    """
    from understudy.device.disclosures import receipt_path
    from understudy.device.outbox import Outbox, ServerRefused

    device, refusal = _home(home), None
    attempts = [_attempt(device, code)] if server is None else _attempts_at(device, server, code)
    for attempt in attempts:
        try:
            receipt = Outbox(device).delete(attempt)
        except ServerRefused as error:  # the others are deleted all the same
            refusal = error
            continue
        typer.echo(
            f"deleted: {receipt.item_bytes:,} bytes of items and all that was made of them "
            f"({receipt.reason}); the signed receipt is {receipt_path(device, attempt)}"
        )
    if refusal is not None:
        raise refusal


def _attempt(home: DeviceHome, code: str | None) -> DisclosureAttempt:
    """What was sent: the latest, or that of a code."""
    from understudy.device.consent import agreement_of_code
    from understudy.device.outbox import Outbox

    agreement = agreement_of_code(home, code)
    attempts = Outbox(home).attempts(agreement.parcel, agreement.server)
    if not attempts:
        raise ConfigError("this was not sent yet: understudy device send")
    return attempts[-1]


def _attempts_at(home: DeviceHome, name: str, code: str | None) -> list[DisclosureAttempt]:
    """What a server has: all of it, or that of a code."""
    from understudy.device.disclosures import device_disclosures, job_of
    from understudy.device.paired_servers import server_named

    server = server_named(home, name)
    attempts = [
        one
        for one in device_disclosures(home)
        if one.server == server.public_key and one.deleted is None and job_of(home, one) is not None
    ]
    if code is not None:
        attempts = [one for one in attempts if one.run == _attempt(home, code).run]
    if not attempts:
        raise ConfigError(
            f"nothing is known to be at {server.described()}: see understudy device history"
        )
    return attempts


def _say_model(result: InstalledResult) -> None:
    model = result.model
    if model.accuracy is not None:
        typer.echo(f"right in {model.accuracy:.1%} of {model.labelled} labelled photos")
    else:
        typer.echo("not measured: there are no labelled photos of its classes")
    typer.echo(f"{'installed' if result.installed else 'not installed'}: {result.reason}")

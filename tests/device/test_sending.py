"""From photos to a model and a receipt; what passes between the two machines on the way."""

import itertools
from pathlib import Path

import pytest
from tests.device.device_site import CANARY, DeviceSite, unreachable
from tests.server.site import Server
from typer.testing import CliRunner

from understudy.cli.main import app
from understudy.core.errors import LedgerError, RunError, WireError
from understudy.device.consent import agreement_of_code
from understudy.device.disclosures import device_history
from understudy.device.installed_models import model_index
from understudy.device.outbox import ServerRefused, ServerUnreachable
from understudy.device.preview import preview
from understudy.methods.sanitize import wire
from understudy.methods.sanitize.wire_items import BackgroundItem, EdgesItem, decode_item

LEVELS = {"dog": "edges", "background": "segment"}


def test_the_ledger_has_a_row_of_everything_before_any_byte_leaves(paired: DeviceSite) -> None:
    paired.add()
    shown = paired.show(LEVELS)

    def recorded(number: int) -> None:
        (row,) = paired.rows("disclosure")
        listed = {one for part in row.data["details"]["parts"] for one in part["digests"]}
        assert listed == set(shown.parcel.items)
        assert row.data["details"]["parcel"] == shown.parcel.digest

    paired.exchange.before = recorded
    paired.outbox.send(shown.parcel.digest, shown.code)
    (row,) = paired.rows("disclosure")
    room, dog = row.data["details"]["parts"]
    assert (room["level"], room["kind"], room["items"]) == (2, "background", 4)
    assert (dog["noun"], dog["bytes"]) == ("dog", 4 * wire.encoded_bytes(EdgesItem, 32))
    sent = [body for method, _, body in paired.exchange.messages if method == "PUT"]
    assert sum(map(len, sent)) == room["bytes"] + dog["bytes"]
    assert set(sent) == set(shown.parcel.items.values())  # which the preview is drawn from


def test_every_file_of_the_device_is_for_its_owner_alone(paired: DeviceSite) -> None:
    paired.home.folder.chmod(0o755)  # as a folder that was there before
    paired.add()
    shown = paired.show(LEVELS)
    paired.outbox.send(shown.parcel.digest, shown.code)
    paths = list(paired.home.folder.rglob("*"))
    assert [path for path in paths if path.stat().st_mode & 0o077] == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_what_was_interrupted_goes_on_with_the_same_bytes(paired: DeviceSite, moment: str) -> None:
    """Cut off at every request, before the server had it and after: it is sent once in the end."""
    paired.add()
    shown = paired.show({"dog": "edges"}, references=2)
    digest = shown.parcel.digest
    bodies: dict[str, set[bytes]] = {}
    for number in itertools.count():
        paired.exchange.messages.clear()
        setattr(paired.exchange, moment, lambda at, n=number: at == n and unreachable(at))
        try:
            state = paired.outbox.send(digest, shown.code)
        except ServerUnreachable:
            state = None
        for method, path, body in paired.exchange.messages:
            bodies.setdefault(f"{method} {path}", set()).add(body)
        if state is not None:
            break
    assert number > 2
    assert state.state == "queued"
    assert all(len(different) == 1 for different in bodies.values())
    assert sum(path.startswith("PUT") for path in bodies) == 2
    assert len(paired.rows("disclosure")) == 1


def test_it_counts_as_disclosed_when_the_server_never_answers(paired: DeviceSite) -> None:
    paired.add()
    shown = paired.show()
    paired.exchange.before = unreachable
    with pytest.raises(ServerUnreachable):
        paired.outbox.send(shown.parcel.digest, shown.code)
    assert len(paired.rows("disclosure")) == 1
    assert "not sent to its end" in "\n".join(device_history(paired.home))
    with pytest.raises(RunError, match="not sent yet"):
        paired.outbox.status(paired.attempt(shown))


def test_nothing_leaves_without_its_row(paired: DeviceSite) -> None:
    paired.add()
    shown = paired.show(LEVELS)
    Path(paired.ledger).unlink()
    with pytest.raises(LedgerError):
        paired.outbox.send(shown.parcel.digest, shown.code)
    assert not paired.exchange.messages


def test_consent_is_to_what_was_shown(paired: DeviceSite) -> None:
    paired.add()
    first = paired.show(LEVELS)
    for wrong in ("", "0" * 8, first.parcel.digest[:4]):
        with pytest.raises(RunError, match=r"look again"):
            paired.outbox.send(first.parcel.digest, wrong)
    second = paired.show(LEVELS)
    assert second.code != first.code
    with pytest.raises(RunError, match="not the code"):
        agreement_of_code(paired.home, first.code)  # what was not agreed to is not there any more
    with pytest.raises(RunError, match="not the code"):
        agreement_of_code(paired.home, second.code[:7])
    item = next(iter(second.parcel.items))
    file = paired.home.path("outbox", second.parcel.digest, "items", item)
    file.write_bytes(file.read_bytes()[:-1] + b"\1")
    with pytest.raises(RunError, match="preview again"):
        paired.outbox.send(second.parcel.digest, second.code)
    assert not paired.exchange.messages
    assert not paired.rows("disclosure")


def test_only_the_schema_passes_and_nothing_of_files_names_or_times(
    paired: DeviceSite, server: Server
) -> None:
    paired.add()
    paired.add_labelled()
    shown = paired.show(LEVELS)
    paired.outbox.send(shown.parcel.digest, shown.code)
    server.work()
    paired.outbox.status(paired.attempt(shown))
    paired.outbox.model(paired.attempt(shown))
    paired.outbox.delete(paired.attempt(shown))
    # Four digits alone turn up in a hexadecimal digest, once in a hundred runs.
    names_and_times = (CANARY, "2031:03:07", "2031-03-07", "1111111111", "labelled", "blue/")
    requested = []
    for method, path, body in paired.exchange.messages:
        text = path.encode() + body
        for canary in (*names_and_times, str(paired.home.folder)):
            assert canary.encode() not in text
        if path == "/v1/jobs":
            submission = wire.decode_message(wire.JobSubmission, body)
            assert submission.request.label_classes == ("blue", "green")
        elif method == "PUT":
            assert isinstance(decode_item(body), BackgroundItem | EdgesItem)
            requested.append(path.rsplit("/", 1)[1])
        else:
            assert body == b""
    assert requested == list(submission.manifest.digests)


def traffic(folder: Path, server: Server, seed: int, levels: dict[str, str]) -> list[int]:
    """Bytes of each message of a device with other photos."""
    site = DeviceSite(folder, f"device-{seed}")
    with server.client() as client:
        site.pair(server, client)
        site.add(5 + seed, seed=seed)
        shown = site.show(levels)
        site.outbox.send(shown.parcel.digest, shown.code)
        return [len(path) + len(body) for _, path, body in site.exchange.messages]


def test_the_traffic_is_the_same_for_all_photos(tmp_path: Path, server: Server) -> None:
    first, second = (traffic(tmp_path, server, seed, LEVELS) for seed in (1, 2))
    assert first == second
    assert len(first) == 2 + 2 * 4


def test_a_model_of_another_job_or_server_is_not_taken(paired: DeviceSite, server: Server) -> None:
    paired.add()
    attempts = []
    for levels in (LEVELS, {"dog": "box"}):
        shown = paired.show(levels)
        paired.outbox.send(shown.parcel.digest, shown.code)
        attempts.append(paired.attempt(shown))
        server.work()
    folders = [paired.home.path("outbox", attempt.parcel, "jobs") for attempt in attempts]
    jobs = [next(folder.glob("*.json")) for folder in folders]
    jobs[0].write_bytes(jobs[1].read_bytes())
    with pytest.raises(WireError, match="another job"):
        paired.outbox.model(attempts[0])
    assert not model_index(paired.home).models


def test_a_server_that_refuses_is_heard(paired: DeviceSite) -> None:
    paired.add()
    preferences = paired.ask({})
    large = preferences.request.model_copy(update={"side": 256})
    shown = preview(paired.home, type(preferences)(large, preferences.sanitizers), paired.checks())
    with pytest.raises(ServerRefused, match="no side of 256"):
        paired.outbox.send(shown.parcel.digest, shown.code)
    assert len(paired.rows("disclosure")) == 1


def test_unpaired(site: DeviceSite) -> None:
    site.add()
    shown = site.show()
    with pytest.raises(RunError, match="understudy device pair"):
        site.outbox.send(shown.parcel.digest, shown.code)
    assert not site.rows("disclosure")


@pytest.mark.parametrize("words", [[], ["-"]])
def test_a_pairing_code_is_asked_for_and_need_not_be_an_argument(
    site: DeviceSite, server: Server, words: list[str]
) -> None:
    code = server.pairing_code("https://127.0.0.1:1").text()
    ran = CliRunner().invoke(
        app, ["device", "pair", "--home", str(site.home.folder), *words], input=f"{code}\n"
    )
    assert isinstance(ran.exception, ServerUnreachable), ran.output  # it was read

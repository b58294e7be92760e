"""Who has what: a row for each parcel, server and attempt; consent to one server, until it changes.

Each test is an attack on the history or on consent that once worked.
"""

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import uvicorn
from tests.device.device_site import DeviceSite, child, kill, save_photo, unreachable
from tests.device.test_device_wire import Terminal, serving
from tests.methods.sanitize.painted_world import SIDE, rooms
from tests.server.site import Server, free_port

from understudy.core.errors import InputError, RunError
from understudy.device import outbox as outbox_module
from understudy.device.consent import recipient, standing_offer, void_offer
from understudy.device.corrections import Correction
from understudy.device.disclosures import device_history, note_deleted
from understudy.device.former_messages import Recipient
from understudy.device.outbox import (
    Exchange,
    Outbox,
    ServerConnection,
    ServerRefused,
    ServerUnreachable,
)
from understudy.device.paired_servers import (
    PairedServer,
    add_server,
    paired_servers,
    server_named,
)
from understudy.device.parcel import pack
from understudy.device.photo_store import add_photos, photo_files
from understudy.device.preferences import make_preferences, stored_preferences
from understudy.device.preview import preview
from understudy.device.review import segment_photos
from understudy.methods.sanitize.wire import PairingResult, encode_message
from understudy.privacy.ledger.ledger import Ledger
from understudy.server.application import application
from understudy.server.job_store import DAY
from understudy.server.serve import certificate_of

LEVELS = {"dog": "edges", "background": "segment"}


@dataclass
class TlsServer:
    """A server in a process of its own, over TLS on loopback."""

    place: Server
    port: int
    fingerprint: str

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def connection(self) -> ServerConnection:
        return ServerConnection(f"https://{self.name}", self.fingerprint)

    def code(self) -> str:
        return self.place.pairing_code(f"https://{self.name}", self.fingerprint).text()

    def jobs(self) -> list[tuple[str, str]]:
        """Submission and state of every job in its store, in order; of an open one, its items."""
        with sqlite3.connect(self.place.folder / "server.db") as database:
            rows = database.execute("select id, submission, state from jobs order by rowid")
            jobs = rows.fetchall()
        folders = self.place.service.folders
        return [
            (submission, state if state != "open" else f"{len(folders.names(job, 'items'))} items")
            for job, submission, state in jobs
        ]


@contextmanager
def tls_server(folder: Path) -> Iterator[TlsServer]:
    place = Server(folder)
    port = free_port()
    certificate, key, fingerprint = certificate_of(folder / "tls")

    def serve() -> None:
        files = {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}
        web = application(Server(folder).service)
        config = uvicorn.Config(web, port=port, log_level="critical", lifespan="off", **files)
        uvicorn.Server(config).run()

    process, server = child(serve), TlsServer(place, port, fingerprint)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                server.connection("GET", "/v1/about", b"", None)
                break
            except ServerUnreachable:
                assert time.monotonic() < deadline
        yield server
    finally:
        kill(process)
        place.store.close()


@dataclass
class CutWire:
    """Passes so many requests on, and no more."""

    exchange: Exchange
    count: int
    paths: list[str] = field(default_factory=list)

    def __call__(self, method: str, path: str, body: bytes, token: str | None) -> tuple[int, bytes]:
        if len(self.paths) == self.count:
            raise ServerUnreachable("cut off")
        self.paths.append(path)
        return self.exchange(method, path, body, token)


def add_more(site: DeviceSite, count: int, seed: int) -> None:
    place = site.folder / f"more-{seed}"
    for row, image in enumerate(rooms(count, seed=seed)[0]):
        save_photo(image, place / f"{row}.png")
    add_photos(site.home, photo_files(place))


def disclosure_lines(home: DeviceSite) -> list[tuple[str, str, str]]:
    """Code, server and state of each disclosure in the history, in order."""
    lines = [line for line in device_history(home.home) if "  to " in line]
    return [
        (words[1], words[2].split()[1], words[-1]) for words in (line.split("  ") for line in lines)
    ]


@pytest.mark.slow
def test_two_servers_three_sends_one_deletion_one_withdrawal(
    site: DeviceSite, tmp_path: Path
) -> None:
    """History and both servers' stores agree line by line, whatever photos were added between."""
    device = Terminal(site.home.folder)
    with ExitStack() as stack:
        servers = [stack.enter_context(tls_server(tmp_path / name)) for name in ("one", "two")]
        one, two = servers
        for server in servers:
            device("pair", server.code())
        site.add(6)
        codes, parcels, datasets = [], [], [site.home.settings.dataset]
        for number, server in enumerate((one, two, one)):
            shown = site.show(LEVELS, references=4, server=server.name)
            codes.append(shown.code)
            parcels.append(shown.parcel.digest)
            if number < 2:
                device("send", "--yes", shown.code)
            add_more(site, 8, seed=20 + number)
            datasets.append(site.home.settings.dataset)
        outbox = Outbox(site.home, CutWire(one.connection, 3))
        with pytest.raises(ServerUnreachable):
            outbox.send(parcels[2], codes[2])
        assert "withdrawn: no more of it leaves" in device("withdraw")
        assert "deleted:" in device("delete", "--server", two.name)
        with pytest.raises(RunError, match="device preview again"):
            device("send", "--yes", codes[2])
        states = [(parcels[0], "queued"), (parcels[1], "deleted"), (parcels[2], "2 items")]
        assert one.jobs() == [states[0], states[2]]
        assert two.jobs() == [states[1]]
        lines = disclosure_lines(site)
        assert [line[:2] for line in lines] == list(
            zip(codes, [one.name, two.name, one.name], strict=True)
        )
        assert lines[0][2] == "queued"
        assert lines[1][2].startswith("deleted by the server")
        assert lines[2][2].startswith("withdrawn")
        assert lines[2][2].endswith("; 2 of 8 items are known to be there")
    assert len(set(datasets)) > 1  # the photos are another dataset by now


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "moment"), [("DELETE", "before"), ("DELETE", "after"), ("note_deleted", "before")]
)
def test_killed_while_a_server_deletes_and_sent_again_twice(
    site: DeviceSite, tmp_path: Path, step: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was listed as sent twice, and its first sending as not deleted."""
    with tls_server(tmp_path / "server") as server:
        Terminal(site.home.folder)("pair", server.code())
        site.add()
        shown = site.show(LEVELS)
        Outbox(site.home).send(shown.parcel.digest, shown.code)

        def deadly(work: Callable[..., object], *arguments: object) -> object:
            result = None if moment == "before" else work(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)
            return result

        def delete() -> None:
            if step == "DELETE":
                outbox = Outbox(site.home, lambda *request: deadly(server.connection, *request))
            else:
                outbox = Outbox(site.home)
                monkeypatch.setattr(outbox_module, step, lambda *a: deadly(note_deleted, *a))
            outbox.delete(site.attempt(shown))

        assert os.WTERMSIG(os.waitpid(child(delete), 0)[1]) == signal.SIGKILL
        if step == "DELETE":
            (line,) = disclosure_lines(site)
            assert line[2].startswith("to be deleted")
        for _ in range(2):
            with pytest.raises(ServerRefused, match="takes it no more"):
                Outbox(site.home).send(shown.parcel.digest, shown.code)
            assert server.jobs() == [(shown.parcel.digest, "deleted")]
            (line,) = disclosure_lines(site)
            assert line[2].startswith("deleted by the server")
    (deletion,) = site.rows("deletion")
    assert deletion.data["run"] == site.attempt(shown).run


def test_what_another_folder_disclosed_of_the_same_photos_is_said(paired: DeviceSite) -> None:
    place = paired.add()
    shown = paired.show({"background": "segment"})
    paired.outbox.send(shown.parcel.digest, shown.code)
    assert "another folder" not in "\n".join([shown.text, *device_history(paired.home)])
    for name, count in (("same", 6), ("some", 2), ("none", 0)):
        other = DeviceSite(paired.folder, name)
        other.ledger = paired.ledger
        if count < 6:
            other.add(6 - count, seed=7)
        if count:
            files = photo_files(place)[:count]
            add_photos(other.home, files, side=SIDE, ledger=other.ledger)
        words = "1 disclosure by another folder (--home) that has photos of these"
        assert (words in "\n".join(device_history(other.home))) == (count > 0)
        assert (words in other.show({"background": "segment"}).text) == (count > 0)


def test_what_another_folder_disclosed_is_said_after_this_one_has_disclosed_as_well(
    paired: DeviceSite,
) -> None:
    """The line of what was disclosed before took its place."""
    first = DeviceSite(paired.folder, "first")
    first.ledger, first.exchange = paired.ledger, paired.exchange
    add_photos(first.home, photo_files(paired.add()), side=SIDE, ledger=paired.ledger)
    add_server(first.home, paired_servers(paired.home)[0])
    for site in (first, paired):
        shown = site.show({"background": "segment"})
        site.outbox.send(shown.parcel.digest, shown.code)
    again = paired.show({"background": "segment"}).text
    assert "1 disclosure by another folder (--home)" in again
    assert "Before this, 1 disclosure to this server and 0 to others" in again


def test_a_background_by_another_name_tells_what_it_was_measured_to_tell(
    paired: DeviceSite,
) -> None:
    """Asked for as another room, it had no figure, though the server recognised the home."""
    paired.add()
    shown = paired.show({"background": "segment", "dog": "edges"}, measure=True)
    paired.outbox.send(shown.parcel.digest, shown.code)
    asked = paired.ask({"dog": "edges"})
    preferences = make_preferences(
        paired.home,
        targets=["old dog"],
        background="hall",
        classes=asked.request.label_classes,
        levels={"old dog": "box"},
        references=4,
        segmenter=asked.segmenter,
    )
    segment_photos(paired.home, preferences)
    again = preview(paired.home, preferences, paired.checks(measure=True)).text
    figures = again[again.index("\n  hall: ") :]
    was = shown.text[shown.text.index("\n  room: ") :]
    for what in ("the status is read", "messages of one home are recognised"):
        line = next(line for line in was.splitlines() if what in line)
        assert line in figures.splitlines()


def test_sent_with_a_former_token_it_is_another_row(paired: DeviceSite, server: Server) -> None:
    """The server had two jobs, and the history one line."""
    paired.add()
    shown = paired.show({"dog": "edges"})
    paired.exchange.after = unreachable  # the server has it, and its answer is lost
    with pytest.raises(ServerUnreachable):
        paired.outbox.send(shown.parcel.digest, shown.code)
    with server.client() as client:
        paired.pair(server, client)
        paired.outbox.send(shown.parcel.digest, shown.code)
        assert len(server.store.jobs()) == len(disclosure_lines(paired)) == 2


def test_what_a_server_deleted_by_itself_is_not_sent_again(
    paired: DeviceSite, server: Server
) -> None:
    paired.add()
    shown = paired.show({"dog": "edges"})
    paired.outbox.send(shown.parcel.digest, shown.code)
    server.now += DAY
    assert server.service.sweep() == 1
    for _ in range(2):
        with pytest.raises(ServerRefused, match="takes it no more"):
            paired.outbox.send(shown.parcel.digest, shown.code)
    (line,) = disclosure_lines(paired)
    assert line[2].startswith("deleted by the server")


@dataclass
class TwoServers:
    """A device that is paired with two servers of this process."""

    site: DeviceSite
    exchanges: dict[str, Exchange] = field(default_factory=dict)

    def outbox(self, name: str) -> Outbox:
        self.site.exchange = self.exchanges[name]
        return self.site.outbox

    def send(self, name: str) -> str:
        """Preview for a server and send it there; the digest of the parcel."""
        shown = self.site.show(LEVELS, server=name)
        self.outbox(name).send(shown.parcel.digest, shown.code)
        return shown.parcel.digest


@pytest.fixture
def two(site: DeviceSite, tmp_path: Path) -> Iterator[TwoServers]:
    two = TwoServers(site)
    with ExitStack() as stack:
        for name in ("first.local", "second.local"):
            server = Server(tmp_path / name)
            stack.callback(server.store.close)
            site.pair(server, stack.enter_context(server.client()), f"https://{name}")
            two.exchanges[name] = site.exchange
        yield two


def test_a_server_that_is_paired_later_takes_nothing_from_the_first(two: TwoServers) -> None:
    """Its address was overwritten, and with it the only way to delete what it has."""
    two.site.add()
    first, _ = (two.send(name) for name in two.exchanges)
    keys = [server_named(two.site.home, name).public_key for name in two.exchanges]
    outbox = two.outbox("first.local")
    outbox.delete(outbox.attempts(first, keys[0])[-1])
    lines = disclosure_lines(two.site)
    assert lines[0][2].startswith("deleted")
    assert lines[1][2] == "queued"  # and no deletion there marks the other one
    (deletion,) = two.site.rows("deletion")
    assert deletion.data["run"] == f"{first}-{keys[0][:16]}-1"
    with pytest.raises(RunError, match="name one of the paired servers by --server:"):
        two.site.show(LEVELS)
    with pytest.raises(RunError, match=r"which 'third.local' does not"):
        two.site.show(LEVELS, server="third.local")


def test_a_server_that_was_set_up_anew_at_its_address_is_sent_what_was_previewed_for_it(
    site: DeviceSite, server: Server
) -> None:
    """Both have one address, by which `device send` could name neither."""
    site.add()
    with serving(server.service) as port:
        url, key = f"http://127.0.0.1:{port}", server.service.keys.public_key
        add_server(site.home, PairedServer(url, "ab" * 32, "cd" * 32, "ef" * 32))
        device = Terminal(site.home.folder)
        device("pair", server.pairing_code(url).text())
        code = site.show(LEVELS, server=key[:8]).code
        assert "the job is queued" in device("send", "--yes", code)


def test_consent_to_one_server_is_void_for_another(two: TwoServers) -> None:
    two.site.add()
    shown = two.site.show(LEVELS, server="first.local")
    for consent in (shown.code, shown.parcel.digest):
        with pytest.raises(RunError, match="previewed for another server"):
            two.outbox("second.local").send(shown.parcel.digest, consent, "second.local")
    assert not two.exchanges["second.local"].messages
    assert not two.site.rows("disclosure")
    with pytest.raises(RunError, match="look again"):  # the parcel's digest names no recipient
        two.outbox("first.local").send(shown.parcel.digest, shown.parcel.digest)


def test_a_code_with_the_key_of_another_server_takes_nothing_of_it(paired: DeviceSite) -> None:
    """A key is public: whoever named it in a code was sent what was agreed to for its owner."""
    paired.add()
    shown = paired.show(LEVELS)
    (server,) = paired_servers(paired.home)
    code = f"https://other.local#{'0' * 32}.{server.public_key}.{'e' * 64}"
    answer = encode_message(PairingResult(token="f" * 64, public_key=server.public_key))
    with pytest.raises(RunError, match=r"other\.local may pretend"):
        Outbox(paired.home, lambda *_: (200, answer)).pair(code)
    assert recipient(paired.home, shown.parcel.digest, None) == server


def test_what_is_sent_again_after_a_deletion_has_a_row_of_its_own(
    paired: DeviceSite, server: Server
) -> None:
    paired.add()
    shown = paired.show(LEVELS)
    paired.outbox.send(shown.parcel.digest, shown.code)
    paired.outbox.delete(paired.attempt(shown))
    with server.client() as client:
        paired.pair(server, client)  # anew: this token has no such job yet
        assert paired.outbox.send(shown.parcel.digest, shown.code).state == "queued"
        assert sum(method == "PUT" for method, _, _ in paired.exchange.messages) == 8
        first, second = paired.rows("disclosure")
        assert [row.data["details"]["attempt"] for row in (first, second)] == [1, 2]
        states = [line[2] for line in disclosure_lines(paired)]
        assert states[0].startswith("deleted")
        assert states[1] == "queued"
        paired.outbox.delete(paired.attempt(shown))
    assert [row.data["run"] for row in paired.rows("deletion")] == [
        first.data["run"],
        second.data["run"],
    ]


def test_a_server_that_has_forgotten_a_job_gets_no_item_under_the_former_row(
    paired: DeviceSite, server: Server
) -> None:
    paired.add()
    shown = paired.show({"dog": "edges"})
    paired.outbox.send(shown.parcel.digest, shown.code)
    with sqlite3.connect(server.folder / "server.db") as database:
        database.execute("delete from jobs")

    def recorded(number: int) -> None:
        if paired.exchange.messages and number > 1:  # beyond the submission
            assert len(paired.rows("disclosure")) == 2

    paired.exchange.messages.clear()
    paired.exchange.before = recorded
    paired.outbox.send(shown.parcel.digest, shown.code)
    assert len(paired.rows("disclosure")) == 2


def photo_left_out(site: DeviceSite) -> None:
    segment_photos(site.home, stored_preferences(site.home), [1])


def photo_corrected(site: DeviceSite) -> None:
    corrections = [Correction(1, "", ("A1",))]
    segment_photos(site.home, stored_preferences(site.home), corrections=corrections)


def previewed(site: DeviceSite) -> None:
    preview(site.home, stored_preferences(site.home), site.checks())


def preview_that_fails(site: DeviceSite) -> None:
    preferences = stored_preferences(site.home)
    many = preferences.request.model_copy(update={"references": 60})
    with pytest.raises(InputError, match="60 references"):
        preview(site.home, replace(preferences, request=many), site.checks())


@pytest.mark.parametrize(
    ("change", "cut"),
    [
        (photo_left_out, 3),
        (photo_corrected, 3),
        (previewed, 0),
        (preview_that_fails, 3),
        (lambda site: site.ask({"dog": "segment"}, 3), 0),  # the same request
        (lambda site: site.ask({"dog": "edges"}, 3), 3),
        (lambda site: void_offer(site.home), 3),
    ],
    ids=["left out", "corrected", "preview", "failed preview", "request", "level", "withdrawal"],
)
def test_what_was_agreed_to_and_not_sent_is_void_after_a_change(
    paired: DeviceSite, change: Callable[[DeviceSite], object], cut: int
) -> None:
    """The older code still sent a photo that was left out since."""
    paired.add()
    shown = paired.show({"dog": "segment"}, references=3)
    paired.exchange.before = lambda number: number == cut and unreachable(number)
    with pytest.raises(ServerUnreachable):
        paired.outbox.send(shown.parcel.digest, shown.code)
    paired.exchange.before = lambda number: None
    change(paired)
    paired.exchange.messages.clear()
    with pytest.raises(RunError, match="not what was previewed last"):
        paired.outbox.send(shown.parcel.digest, shown.code)
    assert not paired.exchange.messages
    (withdrawal,) = paired.rows("withdrawal")
    assert withdrawal.data["run"] == paired.attempt(shown).run
    assert "withdrawn" in "\n".join(device_history(paired.home))


def test_a_withdrawal_while_it_is_sent_stops_the_rest(paired: DeviceSite) -> None:
    paired.add()
    shown = paired.show(LEVELS)
    paired.exchange.after = lambda number: number == 3 and void_offer(paired.home)
    with pytest.raises(RunError, match="nothing more leaves"):
        paired.outbox.send(shown.parcel.digest, shown.code)
    assert len(paired.exchange.messages) == 4
    paired.exchange.after = lambda number: None
    paired.outbox.delete(paired.attempt(shown))  # what had left
    assert disclosure_lines(paired)[0][2].startswith("deleted")


def test_what_is_withdrawn_before_it_was_agreed_to_is_removed(paired: DeviceSite) -> None:
    paired.add()
    shown = paired.show(LEVELS)
    device = Terminal(paired.home.folder)
    assert "can be agreed to no more" in device("withdraw")
    assert not list(paired.home.path("outbox").glob("*"))
    assert standing_offer(paired.home) is None
    assert "nothing to withdraw" in device("withdraw")
    with pytest.raises(RunError, match="not the code"):
        device("send", "--yes", shown.code)
    assert not paired.rows("disclosure")


def test_a_request_that_changes_while_a_preview_is_made_leaves_no_offer(
    paired: DeviceSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    paired.add()
    preferences = paired.ask({"dog": "segment"}, 3)
    segment_photos(paired.home, preferences)

    def packed(*arguments: object) -> object:
        paired.ask({"dog": "text"})  # as another process would
        return pack(*arguments)

    monkeypatch.setattr("understudy.device.preview.pack", packed)
    with pytest.raises(RunError, match="were changed while"):
        preview(paired.home, preferences, paired.checks())
    assert standing_offer(paired.home) is None


def test_the_history_and_a_preview_read_the_ledger_once(
    paired: DeviceSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[None] = []
    rows = Ledger.rows
    monkeypatch.setattr(Ledger, "rows", lambda self, *of: [reads.append(None), rows(self, *of)][1])
    paired.add()
    for step in (lambda: Recipient(paired.home, None), lambda: device_history(paired.home)):
        reads.clear()
        step()
        assert len(reads) == 1

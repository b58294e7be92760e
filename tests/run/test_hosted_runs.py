"""Whole runs with models of a server: they end, stop and resume, and keep private images here."""

import json
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.run.samples import killed_at

pytest.importorskip("openai")

import understudy
from understudy.backends.hosted import hosted_client
from understudy.cli.show_run import RunPrinter
from understudy.core.errors import BackendError, ConfigError, InputError, RunStopped
from understudy.core.roles import MODEL_ROLES
from understudy.planning.dry import planned_run
from understudy.privacy.ledger.ledger import Ledger
from understudy.report.record import RunRecord
from understudy.run.config import make_config
from understudy.run.synthesize import run
from understudy.testing.hosted_stub import PALETTE, StubRequest, StubServer

SIDE, RECORDS = 16, 24
QUICK = {"population": 6, "rounds": 2, "lookahead": 0}
LOCAL = "embedded:dct?coefficients=12"
_CONNECTED: list[Any] = []  # addresses that this process connected to
sys.addaudithook(lambda name, args: name == "socket.connect" and _CONNECTED.append(args[1]))


def other_address() -> str:
    """An address of this machine that is no loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            return str(probe.getsockname()[0])
        except OSError:
            pytest.skip("this machine has no address but loopback")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return private_images(tmp_path_factory.mktemp("data") / "photos")


def private_images(folder: Path, records: int = RECORDS, seed: int = 5) -> Path:
    """Red cats and green dogs in turn, of blocks by which no two look the same."""
    rng = np.random.default_rng(seed)
    for number in range(records):
        name, colour = (("cat", "red"), ("dog", "green"))[number % 2]
        (folder / name).mkdir(parents=True, exist_ok=True)
        blocks = np.kron(rng.normal(0, 50, (8, 8, 3)), np.ones((2, 2, 1)))
        pixels = np.clip(np.array(PALETTE[colour]) + blocks, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture
def server() -> Iterator[StubServer]:
    with StubServer() as server:
        yield server


@pytest.fixture
def elsewhere() -> Iterator[StubServer]:
    """A server that is not reached by a loopback address."""
    with StubServer(host=other_address()) as server:
        yield server


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosted_client, "_FIRST_WAIT", 0.001)
    _CONNECTED.clear()


def hosted(server: StubServer, more: str = "") -> str:
    return f"openai:any?base_url={server.url}&retries=0&parallel=1{more}"


def roles(server: StubServer, *, encoder: bool = True) -> dict[str, str]:
    """The models of SPTI, all of the server or, without its encoder, those that see public data."""
    seen = hosted(server, "&dim=24&images=true") if encoder else LOCAL
    models = {"generator": hosted(server, "&size=32"), "writer": hosted(server)}
    return {"encoder": seen, **models}


class Site:
    """A dataset, its ledger and the folder of a run."""

    def __init__(self, folder: Path, data: Path) -> None:
        self.data, self.out, self.ledger = data, folder / "out", str(folder / "ledger.db")

    def run(self, models: dict[str, str], **more: Any) -> Any:
        options: dict[str, Any] = {"method": "evolution", "epsilon": 8.0, "count": 6}
        options |= {"settings": QUICK, "progress": "none", **models, **more}
        return understudy.synthesize(self.data, out=self.out, ledger=self.ledger, **options)

    @property
    def charges(self) -> list[float]:
        with Ledger(self.ledger) as ledger:
            return [ledger.spent(one.id).epsilon for one in ledger.datasets()]

    @property
    def rows(self) -> list[Any]:
        with Ledger(self.ledger) as ledger:
            return [row for row in ledger.rows() if row.kind in ("charge", "disclosure")]


@pytest.fixture
def site(tmp_path: Path, data: Path) -> Site:
    return Site(tmp_path, data)


def answered(log: list[StubRequest]) -> set[str]:
    """The requests that had an answer."""
    return {
        json.dumps([one.route, one.body], sort_keys=True) + str([i.tobytes() for i in one.images])
        for one in log
        if one.fault is None
    }


def check_private_images_stay(server: StubServer, data: Path) -> None:
    """No image that the server was sent is, at its size, one of the private ones."""
    private = {Image.open(path).convert("RGB").tobytes() for path in data.rglob("*.png")}
    for one in server.log:
        for image in one.images:
            small = Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.NEAREST)
            assert small.tobytes() not in private


# End to end


@pytest.mark.slow
def test_captions_evolve_by_a_server(server: StubServer, site: Site) -> None:
    result = site.run(roles(server))
    assert result.facts["rows"] == 6
    assert {one.route for one in server.log} == {
        *("/chat/completions", "/embeddings", "/images/generations")
    }
    assert not (result.owner / "remote-answers.db").exists()
    run = json.loads((result.owner / "run.json").read_text())
    assert any(note.startswith("models that servers run: ") for note in run["notes"])
    statement = json.loads((result.release / "privacy.json").read_text())
    assert {model["host"] for model in statement["models"]} == {None}
    assert "does not hold towards" not in (result.release / "PRIVACY.md").read_text()


@pytest.mark.parametrize("variation", ["", "&captioner=see"])
def test_images_evolve_by_a_server(server: StubServer, site: Site, variation: str) -> None:
    models = {"encoder": LOCAL, "generator": hosted(server, f"&size=32{variation}")}
    result = site.run(models, settings={**QUICK, "candidates": "images"})
    assert result.facts["rows"] == 6
    assert (server.count("/images/edits") > 0) == (not variation)


@pytest.mark.slow
def test_a_run_with_several_hosted_models_prints_twelve_lines_at_most(
    server: StubServer, site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = str(private_images(tmp_path / "test", seed=6))
    models = {**roles(server), "method": "evolution", "settings": QUICK, "count": 6}
    places = {"source": str(site.data), "out": str(site.out), "ledger": site.ledger}
    measured = {"test": test, "quality_share": "5%"}
    config = make_config({**models, **places, **measured, "epsilon": 8.0})
    printer = RunPrinter(yes=True)
    printer.result(run(config, printer.confirm, progress="none"))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 12
    assert any(one.startswith("requests:  about ") for one in lines)


# Faults

STOPS = {
    "truncated": "no JSON",
    "rate limit": "429",
    "server error": "500",
    "fewer": "gives no",
    "refusal": "refuses to draw",
    "time-out": "answer within",
}
"""Faults that stop a run whose requests are not repeated, and what is said."""


def marked(fault: str) -> object:
    quick = ("refusal", "truncated")
    return fault if fault in quick else pytest.param(fault, marks=pytest.mark.slow)


@pytest.mark.parametrize("fault", [marked(fault) for fault in STOPS])
def test_a_run_that_a_fault_stops_goes_on_and_asks_and_pays_nothing_twice(
    server: StubServer, site: Site, fault: str
) -> None:
    models = roles(server, encoder=False)
    models["generator"] += "&timeout=1"
    # Six captions, six images, six variations: then the first votes are paid for.
    server.spared, server.faults[fault] = 20, 1
    with pytest.raises(RunStopped, match=STOPS[fault]) as stop:
        site.run(models)
    assert "epsilon 8 was charged" in str(stop.value)
    assert "is kept: --resume" in str(stop.value)
    first, paid = answered(server.log), site.charges
    cut = len(server.log)
    result = site.run(models, resume=True)
    assert result.facts["rows"] == 6
    assert site.charges == paid == [pytest.approx(8.0, rel=1e-6)]
    assert not first & answered(server.log[cut:])


class Listing(StubServer):
    """A server whose chat answers, once the faults begin, are lists of two texts."""

    lists = False

    def answer(self, request: StubRequest) -> tuple[int, dict[str, str], bytes]:
        status, headers, data = super().answer(request)
        if not self.lists or self.spared or request.route != "/chat/completions":
            return status, headers, data
        reply = json.loads(data)
        reply["choices"][0]["message"]["content"] = '["a red dog sits", "a red cat sits there"]'
        return status, headers, json.dumps(reply).encode()


def test_a_run_that_malformed_answers_stop_asks_a_mended_server_again(site: Site) -> None:
    """They were kept, and given again and again: a run that was paid for could never end."""
    with Listing() as server:
        models, server.spared, server.lists = roles(server, encoder=False), 12, True
        with pytest.raises(RunStopped, match=r"no variation of 6 of 6 .*JSON or code.*was charged"):
            site.run(models)
        server.lists = False
        assert site.run(models, resume=True).facts["rows"] == 6
        assert site.charges == [pytest.approx(8.0, rel=1e-6)]


@pytest.mark.slow
def test_an_embedding_that_fails_stops_before_the_charge(server: StubServer, site: Site) -> None:
    models = roles(server)
    server.spared, server.faults["wrong dimension"] = 8, 1
    with pytest.raises(BackendError, match="23 numbers instead of 24"):
        site.run(models)
    assert not site.rows
    first, cut = answered(server.log), len(server.log)
    assert site.run(models, resume=True).facts["rows"] == 6
    assert not first & answered(server.log[cut:])


@pytest.mark.parametrize(
    "fault", ["empty", "rate limit", pytest.param("base64", marks=pytest.mark.slow)]
)
def test_a_fault_that_ends_ends_right(server: StubServer, site: Site, fault: Any) -> None:
    server.spared, server.faults[fault] = 8, 2
    models = {role: name.replace("retries=0", "retries=3") for role, name in roles(server).items()}
    result = site.run(models if fault == "base64" else models | {"encoder": LOCAL})
    assert result.facts["rows"] == 6
    assert server.faults[fault] == 0


# Caps


def test_a_plan_of_calls_stands_before_the_first(server: StubServer, site: Site) -> None:
    models = {role: f"{name}&price_call=0.01" for role, name in roles(server).items()}
    settings: dict[str, Any] = {"settings": QUICK, "method": "evolution", "count": 6, **models}
    plan = planned_run(site.data, epsilon=8.0, ledger=site.ledger, **settings)
    calls = {one.role: one.calls for one in plan.calls}
    # 6 candidates, 2 rounds, and 6 samples; 24 records, and 4 probes of 64 public images.
    assert calls == {"generator": 18, "writer": 18, "encoder": 12 + 24 + 256}
    assert sum(one.cost or 0.0 for one in plan.calls) == pytest.approx(3.28)
    for caps in ({"max_calls": 300}, {"max_cost": 3.0}):
        with pytest.raises(ConfigError, match=r"Nothing was sent"):
            site.run(models, **caps)
    with pytest.raises(ConfigError, match="--max-cost needs the prices of openai:any"):
        site.run(roles(server), max_cost=3.0)
    assert not server.log
    assert not site.out.exists()
    asked = {"encoder": hosted(server, "&images=true")}  # for the length of its embeddings
    with pytest.raises(ConfigError, match=r"is 30\. Sent so far: 1 requests, .*Ask for less"):
        site.run(models | asked, max_calls=30)
    assert len(server.log) == 1
    server.log.clear()
    site.run(models | {"encoder": LOCAL}, max_calls=36)
    assert server.count("/images/generations") == calls["generator"]
    assert server.count("/chat/completions") == calls["writer"]


def test_a_cap_that_is_reached_stops_and_a_larger_one_goes_on(
    server: StubServer, site: Site
) -> None:
    models = {role: name.replace("retries=0", "retries=9") for role, name in roles(server).items()}
    models["encoder"] = LOCAL
    server.spared, server.faults["rate limit"] = 20, 5
    with pytest.raises(RunStopped, match=r"--max-calls 36 is used up .*epsilon 8 was charged"):
        site.run(models, max_calls=36)
    assert len(server.log) == 36
    site.run(models, max_calls=60, resume=True)
    assert len(server.log) == 36 + 5
    assert site.charges == [pytest.approx(8.0, rel=1e-6)]


# Privacy


@pytest.mark.parametrize("role", ["encoder", "cluster_encoder", "captioner", "decoder"])
def test_a_role_that_sees_private_images_has_no_server_elsewhere(
    elsewhere: StubServer, server: StubServer, site: Site, role: str
) -> None:
    name = hosted(elsewhere, "&dim=24&images=true" if "encoder" in role else "")
    models: dict[str, Any] = {"encoder": LOCAL, "method": "clustering", "settings": {}}
    if role in ("encoder", "captioner"):
        models = roles(server, encoder=False)
        models |= {"settings": {**QUICK, "vote": "text"} if role == "captioner" else QUICK}
        models |= {"encoder": hosted(server, "&dim=24&images=false")}
    refusal = r"not this machine.*--allow-remote-private" if role != "decoder" else "no decoder"
    if role == "cluster_encoder":  # which no method takes beside an encoder of images
        refusal = "no use for --cluster-encoder|not this machine"
    with pytest.raises(InputError, match=refusal):
        site.run(models | {role: name})
    assert not elsewhere.log
    assert not site.rows
    assert not [one for one in _CONNECTED if one[0] == elsewhere.host]


def test_workers_of_a_cluster_send_a_server_nothing(server: StubServer, site: Site) -> None:
    """They asked what stands at the address on their own machines, and past the caps."""
    with pytest.raises(InputError, match="with --engine ray every worker would ask"):
        site.run(roles(server), engine="ray", max_calls=10)
    assert not [one for one in server.log if one.images]
    assert not site.rows


@pytest.mark.slow
@pytest.mark.parametrize("role", ["generator", "renderer", "writer"])
def test_a_role_that_sees_public_images_sees_no_private_one(
    elsewhere: StubServer, server: StubServer, site: Site, role: str
) -> None:
    settings = {**QUICK, "candidates": "images"} if role == "generator" else QUICK
    models = roles(server, encoder=False) | {role: hosted(elsewhere, "&size=32")}
    if role == "writer":
        models |= {"writer": hosted(elsewhere)}
    if role == "generator":
        del models["writer"]
    site.run(models, settings=settings)
    assert elsewhere.log
    assert len([one for one in elsewhere.log if one.images]) > 0 or role != "generator"
    check_private_images_stay(elsewhere, site.data)


def test_every_role_of_a_model_is_looked_at_above() -> None:
    assert set(MODEL_ROLES) == {
        *("encoder", "cluster_encoder", "captioner", "decoder"),
        *("generator", "renderer", "writer"),
        "denoiser",  # a network that is trained here: no server has one
    }


def test_other_commands_send_no_private_images_elsewhere(
    elsewhere: StubServer, server: StubServer, site: Site
) -> None:
    result = site.run({"encoder": LOCAL}, method="clustering", settings={"clusters": 1})
    name = hosted(elsewhere, "&dim=24&images=true")
    others = private_images(site.out.parent / "test", 4, seed=6)
    with pytest.raises(InputError, match=r"not this machine.*/v1\)$"):  # it has no such option
        understudy.evaluate(
            result.folder, real=site.data, test=others, features=name, progress="none"
        )
    with pytest.raises(InputError, match=r"not this machine.*synthesize \(not select\)"):
        understudy.select(
            site.data,
            private=site.data,
            encoder=name,
            epsilon=1.0,
            out=site.out.parent / "selected",
            keep=4,
            ledger=site.ledger,
            candidates_public=True,
            progress="none",
        )
    assert not elsewhere.log


@pytest.mark.slow
def test_a_host_that_is_permitted_is_recorded_and_stated(
    elsewhere: StubServer, server: StubServer, site: Site
) -> None:
    models = roles(server) | {"encoder": hosted(elsewhere, "&dim=24&images=true")}
    host = elsewhere.host
    with pytest.raises(ConfigError, match=f"--allow-remote-private {host}"):
        site.run(models, allow_remote_private="example.org")
    with pytest.raises(ConfigError, match="no model of this run sends private images"):
        site.run(roles(server), allow_remote_private=host)
    assert not elsewhere.log
    result = site.run(models, allow_remote_private=host)
    assert elsewhere.count("/embeddings") > RECORDS
    (disclosure,) = [row for row in site.rows if row.kind == "disclosure"]
    assert disclosure.data["details"] == {"remote models": {"encoder": host}}
    facts = json.loads((result.release / "privacy.json").read_text())
    assert {one["role"]: one["host"] for one in facts["models"]}["encoder"] == host
    assert facts["covered"][-1].endswith(f"; but {host}.")
    assert facts["not_covered"][0].startswith(f"What {host} knows")
    text = (result.release / "PRIVACY.md").read_text()
    assert f"does not hold towards {host}" in " ".join(text.split())
    assert f"every attacker but {host}" in " ".join(text.split())
    card = " ".join((result.release / "README.md").read_text().split())
    assert f"does not hold towards {host}" in card
    assert understudy.verify(result.release).sound
    assert isinstance(facts_of(result.release), RunRecord)


def facts_of(release: Path) -> RunRecord:
    from understudy.report.json_models import PrivacyFile

    return PrivacyFile.model_validate_json((release / "privacy.json").read_text()).record()


def test_what_a_server_is_asked_depends_on_released_answers_alone(
    server: StubServer, site: Site, tmp_path: Path
) -> None:
    """Adjacent datasets with the same noisy answers: the server sees the same, in that order.

    The other run is stopped between its charge and its first answer, and goes on with those.
    """
    models = roles(server, encoder=False)
    settings = {**QUICK, "sizes": "12,12"}
    site.run(models, settings=settings)
    first, stages = list(server.log), site.out / "owner" / "stages"
    server.log.clear()
    data = private_images(tmp_path / "other", RECORDS + 1)
    adjacent = Site(tmp_path / "adjacent", data)
    killed = killed_at("understudy.privacy.account.Account._store", KeyboardInterrupt())
    with killed, pytest.raises(KeyboardInterrupt):
        adjacent.run(models, settings=settings)
    for path in stages.iterdir():
        shutil.copy(path, adjacent.out / "owner" / "stages" / path.name)
    adjacent.run(models, settings=settings, resume=True)
    assert [(one.route, one.body) for one in server.log] == [(one.route, one.body) for one in first]

"""From a folder to a release through the pages, without a browser: what they show and refuse."""

import csv
import gc
import getpass
import html
import io
import json
import os
import re
import resource
import shutil
import sqlite3
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import numpy as np
import pytest
from jinja2 import nodes
from PIL import Image
from tests.cli.processes import Commands
from tests.web.web_site import CHARGE, HOSTILE_CLASS, Site, Story, draw_dataset, hidden_fields

import understudy
from understudy.core.errors import ConfigError
from understudy.core.results import Evaluation
from understudy.data import open_source
from understudy.metrics.copies import NEAR_COPIES
from understudy.metrics.fidelity import FRECHET_DISTANCE
from understudy.metrics.utility import BALANCED_ACCURACY
from understudy.planning.benchmark_results import accuracy_over_epsilon, comparable_results
from understudy.release.outputs import write_json
from understudy.run import books
from understudy.web import sample_index
from understudy.web.child_jobs import ChildJob, ChildState, JobReport
from understudy.web.copy_texts import copy_texts
from understudy.web.option_forms import form_options, reading_fields, run_fields
from understudy.web.plan_pages import risk_of
from understudy.web.sample_index import PAGE, SampleIndex
from understudy.web.studio import STATIC_FILES, command_line_of, page_environment, strings
from understudy.web.studio_app import WebOptions, open_studio

HTMX_2_0_11 = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"


def test_the_second_click_charges_once_and_exactly_what_was_shown(story: Story) -> None:
    site, token = story
    (account,) = books.overview(site.options.ledger)
    assert account.spent.epsilon == pytest.approx(2, abs=1e-3)
    assert len(account.spent.runs) == 1
    charge = CHARGE | {"epsilon": "1", "out": "run 2"}
    site.get("/charge", **charge)
    site.work()
    values = hidden_fields(site.get("/charge", **charge).text)
    del values["form_token"]
    count = len(site.studio.jobs.all())
    for change in (
        {"epsilon": "8"},
        {"epsilon": "1.001"},
        {"out": "run 3"},
        {"delta": "1e-3"},
        {"unit": "patient"},
        {"shown": "0" * 64},
        {"encoder": ""},
    ):
        answer = site.post("/runs/start", token, **{**values, **change})
        assert answer.status_code == 400, change
    started = [one for one in site.studio.jobs.all()[count:] if one.kind == "synthesize"]
    assert not started


def test_a_charge_that_was_shown_before_another_one_waits_is_shown_again(
    site: Site, with_pages: Commands
) -> None:
    """Of two tabs each said what is spent after its own run alone."""
    site.commands = with_pages
    draw_dataset(site.root / "photos")
    token, tabs = site.enter(), [CHARGE | {"out": name} for name in ("run 1", "run 2")]
    for tab in tabs:
        site.get("/charge", **tab)
    site.work()
    forms = [hidden_fields(site.get("/charge", **tab).text) for tab in tabs]
    for form in forms:
        form.pop("form_token")
    answers = [site.post("/runs/start", token, **form) for form in (forms[0], *forms)]
    assert [one.status_code for one in answers] == [303, 303, 400], answers[-1].text
    assert "another run waits" in answers[-1].text
    again = hidden_fields(site.get("/charge", **tabs[1]).text)
    again.pop("form_token")
    assert site.post("/runs/start", token, **again).status_code == 303


@pytest.mark.slow
def test_whose_images_they_are_is_asked_before_a_plan(story: Story) -> None:
    site, _ = story
    scans = draw_dataset(site.root / "scans", each=4)
    lines = []
    for number, path in enumerate(sorted(scans.rglob("*.png"))):
        path.rename(scans / f"{number}.png")
        lines.append(f"{number}.png,{path.parent.name},{number // 2}")
    (scans / "metadata.csv").write_text("\n".join(["file_name,label,patient_id", *lines]))
    asked = {"source": "data/scans"}
    for query in (asked, asked | {"unit": "patient_id"}):
        site.get("/data", **query)
        site.work()
    page = site.get("/data", **asked).text
    assert "8 images of 4 patients: protect whole patients, or single images?" in page
    assert "Plan a run" not in page
    assert "add --unit" not in page
    answered = site.get("/data", **asked, unit="patient_id").text
    assert "Plan a run" in answered
    assert "or single images?" not in answered
    shutil.rmtree(scans)


def test_a_job_that_failed_moves_no_bar() -> None:
    """A bar without a number moves, as if something went on."""
    parts = page_environment().get_template("studio_parts.html").module
    job = ChildJob("0" * 16, "check", (), "", "", 0.0)
    shown = {
        state: "<progress" in str(parts.waiting(job, JobReport(state)))  # type: ignore[attr-defined]
        for state in get_args(ChildState)
    }
    assert shown == {"queued": True, "running": True} | dict.fromkeys(
        ("finished", "failed", "stopped"), False
    )


def test_a_folder_that_exists_is_refused_before_the_charge(story: Story) -> None:
    site, _ = story
    site.get("/charge", **CHARGE)
    site.work()
    page = site.get("/charge", **CHARGE).text
    assert "There is a folder data/run 1 already." in page
    assert "Yes, charge" not in page


def test_a_run_that_never_began_can_be_begun_again(site: Site) -> None:
    """The server was killed between its mark and the process; nothing was charged."""
    token, out = site.enter(), site.root / "run 9"
    jobs, words = site.studio.jobs, ["synthesize", str(site.root), f"--out={out}"]
    job = jobs.ask("synthesize", words, about=str(out), queue=site.studio.ledger_queue)
    (jobs.folder / job.id / "begun").touch()
    assert "Go on with it" in site.get("/run", run="data/run 9").text
    for status in (303, 400):  # and not twice
        assert site.post("/runs/resume", token, run="data/run 9").status_code == status
    first, second = jobs.of(out, "synthesize")
    assert (first.words, jobs.report(second).state) == (second.words, "queued")


def test_a_run_that_failed_has_a_link_to_its_plan(site: Site, with_pages: Commands) -> None:
    site.commands, token = with_pages, site.enter()
    draw_dataset(site.root / "photos")
    site.get("/charge", **CHARGE)
    site.work()
    form = hidden_fields(site.get("/charge", **CHARGE).text)
    assert site.post("/runs/start", token, **form).status_code == 303
    run = {"run": "data/run 1"}
    assert "/plan?" not in site.get("/run", **run).text  # while it waits
    shutil.rmtree(site.root / "photos" / "boots")
    site.work()
    (back,) = re.findall(r'<a href="(/plan[^"]+)"', site.get("/run", **run).text)
    page = site.client.get(html.unescape(back)).text
    assert 'name="count" value="130"' in page
    assert 'name="out" value="run 1"' in page
    assert site.post("/runs/resume", token, **run).status_code == 303
    site.work()
    assert back in site.get("/run", **run).text


def test_a_run_of_a_studio_of_other_folders_is_none_of_these_pages(site: Site) -> None:
    site.enter()
    jobs = site.studio.jobs
    for out in ("/another/root/run", str(site.root / "mine")):
        jobs.ask("synthesize", ["synthesize", f"--out={out}"], about=out)
    answer = site.get("/runs")
    assert answer.status_code == 200
    assert "data/mine" in answer.text
    assert "another" not in answer.text


def test_images_that_were_written_anew_are_looked_at_anew(site: Site) -> None:
    site.enter()
    image = draw_dataset(site.root / "scans" / "train", each=1) / "boots" / "0.png"
    for number in (1, 1, 2, 3):
        if number > 1:
            image.write_bytes(b"") if image.stat().st_size else image.unlink()
        assert site.get("/data", source="data/scans").status_code == 200
        assert len(site.studio.jobs.all()) == number


@pytest.mark.parametrize("name", ["cats & dogs", ".hidden", "-", "写真, 2", "a" * 100])
def test_the_name_that_a_plan_proposes_for_its_folder_is_taken(site: Site, name: str) -> None:
    site.enter()
    draw_dataset(site.root / name, each=1)
    page = site.get("/plan", source=f"data/{name}").text
    (out,) = re.findall(r'id="out" name="out" value="([^"]*)"', page)
    answer = site.get("/charge", source=f"data/{name}", epsilon="1", out=html.unescape(out))
    assert answer.status_code == 200, answer.text


def copied(page: str, kind: str) -> str:
    """The text of a page that is copied as Python or as a recipe."""
    text, *_ = re.findall(rf'<pre id="[^"]+" class="{kind}">(.*?)</pre>', page, re.DOTALL)
    return html.unescape(text)


@pytest.mark.slow
def test_what_is_copied_as_python_or_as_a_recipe_runs(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, token = story
    monkeypatch.chdir(tmp_path)  # where the recommended run is written
    charge = CHARGE | {"epsilon": "8", "count": "20", "set.clusters": "1", "hold_out": "30%"}
    recipe, out = tmp_path / "recipe.yaml", ("in python", "by recipe")
    exec(copied(site.get("/charge", **charge | {"out": out[0]}).text, "python"), {})
    recipe.write_text(copied(site.get("/charge", **charge | {"out": out[1]}).text, "yaml"))
    ended = site.commands.run("recipe", recipe, "--yes")  # type: ignore[union-attr]
    assert ended.code == 0, ended.err
    asked, same = (
        json.loads((site.root / name / "owner" / "run.json").read_text())["settings"]
        for name in out
    )
    assert asked | {"settings": {"clusters": "1"}} == same  # the command line's are text
    assert (asked["settings"], asked["hold_out"], asked["count"]) == ({"clusters": 1}, "30%", 20)
    site.get("/data", source="data/photos", skip_bad="on")
    site.get("/plan", source="data/photos", skip_bad="on", epsilon="8")
    site.post("/result/do", token, run="data/by recipe", action="resample", count="12", out="more")
    site.post("/result/do", token, run="data/by recipe", action="train", statistics="on")
    site.work()
    done = site.get("/result", run="data/by recipe").text
    assert f"to share:  {site.root / 'more' / 'release'}" in done
    assert "released no means and covariance of classes of images" in done  # by embedded:dct
    assert 'name="statistics"' not in done
    shutil.rmtree(site.root / "more")
    for page in (
        site.get("/data", source="data/photos", skip_bad="on"),
        site.get("/plan", source="data/photos", skip_bad="on", epsilon="8"),
        site.get("/result", run="data/by recipe"),  # draws more samples once more
        site.get("/compare", run=["data/by recipe", "data/in python"]),
        site.get("/verify", file="data/by recipe"),
    ):
        values: dict[str, Any] = {}
        exec(copied(page.text, "python"), values)
        assert values["result"] is not None, page.url
    assert (site.root / "more" / "release" / "privacy.json").is_file()
    for name in (*out, "more"):
        shutil.rmtree(site.root / name)


def test_an_audit_is_of_the_run_as_it_was_asked_for(story: Story) -> None:
    """It was of the method alone: of images instead of persons, at the usual delta."""
    site, token = story
    run = site.root / "persons"
    shutil.copytree(site.root / "run 1", run)
    path = run / "owner" / "run.json"
    content = json.loads(path.read_text())
    places = {"candidates": str(site.root / "photos"), "decoder": "embedded:dct"}
    whose = {"unit": "patient", "unit_rows": 3, "adjacency": "replace-one"}
    content["settings"] |= {**places, **whose, "classes": ["a,b", "c"], "settings": {"clusters": 2}}
    path.write_text(json.dumps(content))
    asked = {"run": "data/persons", "action": "audit", "real": "data/photos"}
    assert site.post("/result/do", token, **asked).status_code == 303
    words = site.studio.jobs.all()[-1].words
    assert words[:2] == ("audit", str(site.root / "photos"))
    assert {
        *(f"--{name.replace('_', '-')}={value}" for name, value in (places | whose).items()),
        *("--epsilon=2.0", "--delta=1e-05", "--encoder=embedded:dct", "--size=8", "--channels=1"),
        *("--skip-bad", "--set=clusters=2", '--classes="a,b",c', f"--out={run}/owner/audit.json"),
    } <= set(words)
    for outside in ({"candidates": "/etc"}, {"encoder": "hf:a/b"}, {"encoder": "onnx:/etc/a.onnx"}):
        path.write_text(json.dumps(content | {"settings": content["settings"] | outside}))
        assert site.post("/result/do", token, **asked).status_code in (400, 404), outside
    path.write_text(json.dumps(content))
    audit = site.studio.jobs.all()[-1]
    assert f'name="job" value="{audit.id}"' in site.get("/result", run="data/persons").text
    of_another = site.post("/result/cancel", token, run="data/run 1", job=audit.id)
    assert (of_another.status_code, site.studio.jobs.report(audit).state) == (400, "queued")
    site.post("/result/cancel", token, run="data/persons", job=audit.id)
    assert site.studio.jobs.report(audit).state == "stopped"
    assert "/result/cancel" not in site.get("/result", run="data/persons").text
    path.write_text("{}")
    assert site.post("/result/do", token, **asked).status_code == 400
    shutil.rmtree(run)


def test_a_method_stands_with_what_a_class_can_carry_and_its_time(story: Story) -> None:
    site, _ = story
    method = {"source": "data/photos", "skip_bad": "on", "method": "clustering"}
    bare = CHARGE | {"out": "another", "decoder": "none"}
    site.get("/plan/method", **method)
    site.get("/charge", **bare)
    site.work()
    shown = site.get("/plan/method", **method).text
    assert "a class of about" in shown
    assert "Time: about" in shown
    assert "of one processor, and" in shown
    assert "not measured with this method" in site.get("/charge", **bare).text


def test_a_method_whose_classes_carry_the_same_at_every_size_says_what(story: Story) -> None:
    site, _ = story
    method = {"source": "data/photos", "skip_bad": "on", "method": "clustering", "epsilon": "8"}
    method |= {"size": "16"}  # from which on an encoder of energies is the default
    site.get("/plan/method", **method)
    site.work()
    shown = site.get("/plan/method", **method).text
    assert shown.count("<td>its own</td>") == 5
    assert "cannot tell beforehand" not in shown


@pytest.mark.parametrize("ledger", ["ann:secret@host/ledger", "host/l?user=ann&password=secret"])
def test_no_password_of_a_ledger_is_copied(ledger: str) -> None:
    words = ["synthesize", "photos", "--epsilon=1", f"--ledger=postgresql://{ledger}"]
    texts = copy_texts(command_line_of(words))
    assert set(texts) == {"python", "yaml"}
    assert "secret" not in str(texts)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("ann:se%40?#cret@host", "ann@host"),
        ("ann@host?password=se%40?#cret", "ann@host"),
        # libpq takes ?, # and a plus for what they are, and %20 alone for a space.
        (
            "ann@host/db?options=-c%20a%3D1+2&password=se%40?#cret&sslmode=require",
            "ann@host/db?options=-c%20a%3D1+2&sslmode=require",
        ),
    ],
)
def test_no_job_of_a_studio_holds_the_password_of_its_ledger(
    given: str, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job's words are stored, and shown by the system to every account of the machine."""
    monkeypatch.setenv("PGPASSWORD", "another")
    ledger, device = f"postgresql://{given}", tmp_path / "device"
    studio = open_studio(
        WebOptions((tmp_path,), ledger=ledger, device=device, folder=tmp_path), print
    )
    assert studio.ledger_words() == [f"--ledger=postgresql://{left}"]
    assert studio.ledger_queue == f"ledger postgresql://{left}"
    assert os.environ["PGPASSWORD"] == "se@?#cret"


def test_a_release_is_exported_in_other_formats(story: Story, tmp_path: Path) -> None:
    site, _ = story
    release = site.root / "run 1" / "release"
    for what in ("npz", "parquet"):
        data = site.get("/result/download", run="data/run 1", what=what).content
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            archive.extractall(tmp_path / what)
        assert (tmp_path / what / "README.md").read_bytes() == (release / "README.md").read_bytes()
        assert read_all(tmp_path / what) == read_all(release)
    assert (tmp_path / "npz" / "gen" / "gen.npz").is_file()
    assert site.get("/result/download", run="data/run 1", what="x").status_code == 422


def test_a_release_that_was_changed_is_called_unverified(story: Story) -> None:
    site, _ = story
    changed = shutil.copytree(site.root / "run 1", site.root / "changed")
    try:
        assert "is unverified" not in site.get("/result", run="data/changed").text
        next((changed / "release").rglob("*.png")).unlink()
        for path in ("/result", "/result/report"):
            assert (
                "What the release states is unverified" in site.get(path, run="data/changed").text
            )
        shutil.rmtree(changed / "owner")
        assert (
            "What the release states is unverified" in site.get("/result", run="data/changed").text
        )
    finally:
        shutil.rmtree(changed)


def read_all(folder: Path) -> Counter[tuple[str, bytes]]:
    """The images of a release with their class names."""
    source = open_source(str(folder), size=(8, 8))
    return Counter(
        (source.classes[label], value.tobytes())
        for batch in source.batches(64)
        for label, value in zip(batch.labels.tolist(), batch.values, strict=True)
    )


def test_somebody_elses_set_is_measured_and_its_claim_is_not(
    site: Site, with_pages: Commands
) -> None:
    site.commands, token = with_pages, site.enter()
    for seed, name in enumerate(("real", "test", "theirs")):
        draw_dataset(site.root / name, seed=seed)
    images = [
        np.asarray(Image.open(file)) for file in sorted((site.root / "theirs").rglob("*.png"))
    ]
    values = np.stack(images)[:, None].astype(np.float32) / 255
    np.savez(site.root / "gen.npz", x=values, y=np.repeat(["boots", "shirts"], 30))
    form = {"source": "data/gen.npz", "real": "data/real", "test": "data/test"}
    outside = site.post("/data/evaluate", token, **form | {"real": "data/../ledger.db"})
    assert outside.status_code == 400
    before = sorted(site.root.rglob("*"))
    answer = site.post("/data/evaluate", token, **form)
    assert answer.status_code == 303, answer.text
    site.work()
    page = site.get("/data", source="data/gen.npz").text
    assert "It did not work" not in page
    assert "fidelity" in page
    assert "unverified" in page
    assert "understudy evaluate" in page
    assert sorted(site.root.rglob("*")) == before
    assert not books.overview(site.options.ledger)


@pytest.mark.slow
def test_figures_are_given_as_svg_and_csv(story: Story) -> None:
    """With what was published of such data beside, where there is any."""
    site, token = story
    draw_dataset(site.root / "others", classes=("boots", HOSTILE_CLASS), seed=1)
    evaluate = {"action": "evaluate", "real": "data/photos", "test": "data/others"}
    site.post("/result/do", token, run="data/run 1", skip_bad="on", **evaluate)
    site.work()
    page = site.get("/result", run="data/run 1").text
    assert "No published result is of data" in page  # of sixty images
    assert page.count("form=svg") > 0
    for number in range(page.count("form=svg")):
        query = {"run": "data/run 1", "number": number}
        drawn = ElementTree.fromstring(site.get("/result/figure", **query, form="svg").text)
        assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
        rows = list(csv.reader(io.StringIO(site.get("/result/figure", **query, form="csv").text)))
        assert len(rows) > 1
        assert all(len(row) == 4 for row in rows)
    assert site.get("/result/figure", run="data/run 1", number=999).status_code == 400
    values = site.get("/result/values", run="data/run 1")
    assert values.headers["content-disposition"] == 'attachment; filename="run-1-values.csv"'
    assert len(values.text.splitlines()) > 1


def test_published_points_stand_beside_runs_on_comparable_data_alone() -> None:
    alike = {"images": 50_000, "classes": 10, "side": 28}
    published = comparable_results("clustering", "embedded:dct", "images", **alike)
    assert {one.epsilon: one.accuracy for one in published} == pytest.approx(
        {1.0: 0.806, 10.0: 0.8}
    )
    for change in ({"images": 5000}, {"classes": 100}, {"side": 128}):
        assert not comparable_results("clustering", "embedded:dct", "images", **alike | change)
    plot = accuracy_over_epsilon([(2.0, 0.7, "run 1")], published)
    assert [len(line.x) for line in plot.lines] == [1, 2]
    assert plot.rows()[1] == ("these runs", 2.0, 0.7, "run 1")


def test_hostile_names_are_text_on_every_page(story: Story) -> None:
    site, _ = story
    checked = site.get("/data", source="data/photos")
    site.work()
    checked = site.get("/data", source="data/photos")
    assert "two\\nlines &lt;script&gt;" in checked.text
    shown = [
        checked,
        *(site.get(path) for path in ("/", "/runs", "/ledger")),
        site.get("/result", run="data/run 1"),
        site.get("/result/report", run="data/run 1"),
        site.get("/result/public", run="data/run 1"),
        site.get("/plan", source="data/photos", classes=HOSTILE_CLASS, label='"><script>'),
        site.get("/run", run=f"data/{HOSTILE_CLASS}"),
        site.get("/data", source=HOSTILE_CLASS),
    ]
    for answer in shown:
        assert answer.status_code in (200, 400), answer.url
        assert "<img src=x" not in answer.text
        assert "<script>" not in answer.text
        assert not re.search(r"\son\w+=['\"]", answer.text), answer.url
    assert sum("&lt;img src=x" in answer.text for answer in shown) >= 5


def test_reports_run_no_script_and_are_the_command_lines_own(story: Story) -> None:
    site, _ = story
    answer = site.get("/result/public", run="data/run 1")
    policy = answer.headers["content-security-policy"]
    assert "script-src" not in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "sandbox" in policy
    from understudy.run.report import write_public_report

    page = write_public_report(site.root / "run 1", site.folder / "public.html")
    assert answer.text == page.read_text(encoding="utf-8")


def test_what_is_handed_over_is_sound_on_the_verify_page(story: Story) -> None:
    site, token = story
    os.utime(site.root / "run 1" / "release" / "README.md", (0, 0))  # no zip knows the year 1970
    data = site.get("/result/download", run="data/run 1", what="handover").content
    names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    assert "run 1/what-this-is.html" in names
    assert not [name for name in names if "owner" in name]
    put = site.client.put(
        "/upload", params={"name": "../x y.zip"}, content=data, headers={"x-understudy-form": token}
    )
    place = put.json()["place"]
    assert re.fullmatch(r"data/understudy-uploads/x y-[0-9a-f]{6}\.zip", place)
    page = site.get("/verify", file=place).text
    assert "is sound" in page
    assert "Guarantee: " in page
    bad, packed = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(1000))
    packed.getbuffer()[31] ^= 0xFF  # the first byte of the deflated ones
    with zipfile.ZipFile(io.BytesIO(data)) as good, zipfile.ZipFile(bad, "w") as archive:
        for name in names:
            content = good.read(name)
            archive.writestr(name, content + b" " if name.endswith("PRIVACY.md") else content)
    (site.root / "bad.zip").write_bytes(bad.getvalue())
    page = site.get("/verify", file="data/bad.zip").text
    assert "is not sound" in page
    assert "Guarantee: " not in page
    for content in (b"", b"PK\3\4", data[:1000], packed.getvalue()):
        (site.root / "broken.zip").write_bytes(content)
        assert site.get("/verify", file="data/broken.zip").status_code == 400


def test_samples_come_a_page_at_a_time(story: Story) -> None:
    site, _ = story
    page = site.get("/result", run="data/run 1", label=0, page=0).text
    numbers = re.findall(r"label=0&amp;number=(\d+)", page)
    assert 0 < len(numbers) <= PAGE
    image = site.get("/result/sample", run="data/run 1", label=0, number=numbers[-1])
    assert Image.open(io.BytesIO(image.content)).size == (8, 8)
    for label, number in ((0, 10**6), (9, 0), (2**31, 2**31)):
        assert (
            site.get("/result/sample", run="data/run 1", label=label, number=number).status_code
            == 400
        )


def test_a_link_in_a_release_shows_nothing_of_elsewhere(story: Story) -> None:
    site, _ = story
    copy = site.root / "copy"
    shutil.copytree(site.root / "run 1", copy)
    secret = site.folder / "secret.png"
    Image.new("L", (8, 8)).save(secret)
    first = sorted((copy / "release" / "train").rglob("*.png"))[0]
    first.unlink()
    first.symlink_to(secret)
    for path in ("/result", "/result/download", "/result/public"):
        assert site.get(path, run="data/copy").status_code == 400
    shown = [site.get("/result/sample", run="data/copy", label=k, number=0) for k in (0, 1)]
    assert sorted(one.status_code for one in shown) == [200, 400]
    shutil.rmtree(copy)


def test_parquet_is_paged_like_files(story: Story, tmp_path: Path) -> None:
    from understudy.core.types import Release, SyntheticBatch
    from understudy.data import write_release

    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (150, 8, 8, 1), np.uint8), np.arange(150) % 3
    release = Release(
        "drawn",
        ("a", "b", HOSTILE_CLASS),
        150,
        lambda: iter([SyntheticBatch(labels, images=images)]),
        image_shape=(8, 8, 1),
    )
    for form in ("png", "parquet"):
        write_release(release, tmp_path / form, format=form)  # type: ignore[arg-type]
    png, parquet = (SampleIndex(tmp_path / form) for form in ("png", "parquet"))
    assert png.classes() == parquet.classes()
    assert [one.count for one in png.classes()] == [50, 50, 50]
    for label, number in ((0, 0), (2, 49), (1, 17)):
        assert png.thumbnail(label, number) == parquet.thumbnail(label, number)


@pytest.mark.parametrize("pipe", ["classes.json", "train/a/0.png", "data/a.parquet"])
def test_a_pipe_in_a_release_is_not_waited_for(tmp_path: Path, pipe: str) -> None:
    classes = {"classes": [{"name": "a", "folder": "a"}]}
    (tmp_path / "classes.json").write_text(json.dumps(classes))
    (tmp_path / pipe).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / pipe).unlink(missing_ok=True)
    os.mkfifo(tmp_path / pipe)
    index = SampleIndex(tmp_path)
    index.classes()
    with pytest.raises(ConfigError, match="no such image"):
        index.thumbnail(0, 0)


@pytest.mark.parametrize("labels", [[0, 2**30], [0, -1], [0.5], ["a"]])
def test_labels_that_no_class_has_fill_no_memory(tmp_path: Path, labels: list[Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"label": labels}), tmp_path / "data" / "a.parquet")
    with pytest.raises(ConfigError, match="not those of its classes"):
        SampleIndex(tmp_path).classes()


def test_a_row_group_of_one_image_again_and_again_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of kilobytes that has gigabytes in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.setattr(sample_index, "_GROUP_BYTES", 1 << 20)
    (tmp_path / "data").mkdir()
    images = [{"bytes": bytes(1 << 10)}] * (1 << 14)
    pq.write_table(pa.table({"image": images}), tmp_path / "data" / "a.parquet")
    most = pa.total_allocated_bytes() + (1 << 22)
    del images
    with pytest.raises(ConfigError, match="too large to be shown"):
        SampleIndex(tmp_path).thumbnail(0, 1)
    assert pa.total_allocated_bytes() < most


@pytest.mark.slow
def test_sixty_thousand_samples_are_shown_at_once(story: Story) -> None:
    site, _ = story
    copy = site.root / "large"
    shutil.rmtree(copy, ignore_errors=True)  # of an attempt before
    shutil.copytree(site.root / "run 1", copy)
    for folder in sorted((copy / "release" / "train").iterdir()):
        image = next(folder.iterdir())
        for row in range(30_000):
            os.link(image, folder / f"9{row:06d}.png")
    gc.collect()
    gc.freeze()  # what other tests have left is none of the page's work
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for page in (0, 1, 400):
        begun = time.process_time()
        answer = site.get("/result", run="data/large", label=1, page=page)
        seconds.append(time.process_time() - begun)
        numbers = re.findall(r"/result/sample\?[^\"]*number=(\d+)", answer.text)
        assert len(numbers) == PAGE
        assert site.get("/result/sample", run="data/large", label=1, number=numbers[-1]).content
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert max(seconds) < 2, seconds  # of a processor: 1.2 for the first on a slow one
    assert grown < 300_000  # KiB
    shutil.rmtree(copy)


def test_the_ledger_shows_the_run_and_takes_a_total(story: Story) -> None:
    site, token = story
    (account,) = books.overview(site.options.ledger)
    id = account.dataset.id
    for epsilon, status in (("50", 303), ("x", 400), ("-1", 400), ("nan", 400), ("inf", 400)):
        answer = site.post("/ledger/budget", token, dataset=id, epsilon=epsilon)
        assert answer.status_code == status, epsilon
    assert site.post("/ledger/budget", token, dataset="../x", epsilon="1").status_code == 400
    page = site.get("/ledger", dataset=id).text
    assert "The total is 50" in page
    assert account.spent.runs[0][:8] in page
    assert "epsilon 2, for " in page
    assert f"by {getpass.getuser()}" in page
    answers = re.findall(r"<strong>release</strong>.*?<small>(.*?)</small>", page)
    assert len(answers) == len(account.spent.runs)
    assert {"class sizes", "centre", "covariance"} < set(answers[0].split(", "))


def test_a_page_of_a_locked_ledger_says_soon_who_holds_it(story: Story) -> None:
    """It answered after a minute, and did not say what it had waited for."""
    site, token = story
    with closing(sqlite3.connect(str(site.options.ledger), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        start = time.monotonic()
        answers = site.get("/ledger"), site.post("/ledger/budget", token, dataset="x", epsilon="1")
        assert time.monotonic() - start < 30
    for answer in answers:
        assert answer.status_code == 400
        assert "waiting for the ledger at " in answer.text
        assert "open it again" in answer.text
    assert site.get("/ledger").status_code == 200


def test_a_run_in_two_roots_is_listed_once(tmp_path: Path) -> None:
    inner = tmp_path / "data" / "project"
    (inner / "out" / "owner").mkdir(parents=True)
    (inner / "out" / "owner" / "start.json").write_text("{}")
    site = Site(tmp_path, roots=(inner,))
    with site.client:
        site.enter()
        page = site.get("/runs").text
    assert page.count(">project/out</a>") == 1
    assert ">data/project/out</a>" not in page


def test_runs_stand_in_a_table_by_what_was_measured(story: Story, site: Site) -> None:
    evaluations = {
        "a": FRECHET_DISTANCE.value(3.25),
        "b": FRECHET_DISTANCE.value(0.75),
        "c": BALANCED_ACCURACY.value(0.5, measured="cnn"),
    }
    for name, value in evaluations.items():
        run = shutil.copytree(story[0].root / "run 1", site.root / name)
        written = Evaluation((value, NEAR_COPIES.value(0.25, label="boots")), (), ())
        write_json(run / "owner" / "evaluation.json", written.as_dict())
    site.enter()
    listed = {}
    for order in ("", "frechet_distance", "balanced_accuracy", "recall", "nothing"):
        answer = site.get("/runs", order=order)
        assert answer.status_code == 200
        listed[order] = re.findall(r'href="/result\?run=data/(\w)"', answer.text)
    assert listed[""] == listed["recall"] == listed["nothing"] == ["a", "b", "c"]
    assert listed["frechet_distance"] == ["b", "a", "c"]
    assert listed["balanced_accuracy"] == ["c", "a", "b"]
    cells = re.findall(r'<td class="n">([^<]*)</td>', answer.text)
    assert [cells[k : k + 6][2:] for k in (0, 6, 12)] == [
        ["", "3.25", "", ""],
        ["", "0.75", "", ""],
        ["50.0\u00a0%", "", "", ""],
    ]


def test_a_dataset_gets_a_total_before_its_first_run(site: Site, with_pages: Commands) -> None:
    folder = draw_dataset(site.root / "new")
    Image.new("L", (9, 11)).save(folder / "boots" / "of-another-size.png")
    site.commands, token = with_pages, site.enter()
    site.get("/data", source="data/new")
    site.work()
    asked = hidden_fields(site.get("/data", source="data/new").text)
    assert asked.pop("form_token") == token
    answer = site.post("/ledger/budget", token, **asked, epsilon="3")
    assert answer.status_code == 303, answer.text
    assert "The total is 3" in site.get(answer.headers["location"]).text
    (account,) = books.overview(site.options.ledger)
    assert account.dataset.name.endswith("new")
    assert account.spent.epsilon == 0
    outside = site.post("/ledger/budget", token, source="data/../ledger.db", epsilon="3")
    assert outside.status_code == 400


def test_images_of_sixteen_bits_get_a_window_on_the_page(site: Site, with_pages: Commands) -> None:
    """The page said to write it after the name, and had no field that a name is written in."""
    for k, label in enumerate("aabb"):
        (site.root / "deep" / label).mkdir(parents=True, exist_ok=True)
        pixels = np.full((9, 9), 900 + k, np.uint16)
        Image.fromarray(pixels).save(site.root / "deep" / label / f"{k}.png")
    site.commands, _ = with_pages, site.enter()
    for name, words in (("data/deep", "from 900 to 900"), ("data/deep?window=900,99", "accepted")):
        site.get("/data", source=name)
        site.work()
        page = site.get("/data", source=name).text
        assert words in page
        assert f'name="source" value="{name}"' in page
    site.get("/plan", source=name, epsilon="1")
    site.work()
    assert "deep?window=900,99" in site.get("/plan", source=name, epsilon="1").text


def test_the_slider_says_what_the_release_will_state() -> None:
    """73.1 % is e / (e + 1), as (epsilon, 0)-DP allows; delta adds next to nothing."""
    risk = risk_of(1.0, 1e-5)
    assert (risk.general, risk.strength) == ("73.2 %", "good")
    assert float(risk.gaussian.removesuffix(" %")) < 56
    assert risk_of(10.0, 1e-5).strength == "poor"


def test_forms_have_every_option_of_the_command_line() -> None:
    from understudy.run.config import run_options

    fields = {one.name for group in run_fields({}).values() for one in group}
    own = {name for name in fields if not name.startswith("set.")}
    assert set(run_options()) - own == {
        *("source", "epsilon", "settings", "ledger", "out", "resume", "dry_run"),
    }
    assert {one.name for one in reading_fields({})} >= {"size", "unit", "skip_bad"}
    pairs = [("size", "8"), ("size", " "), ("ledger", "x"), ("out", "y"), ("resume", "on")]
    assert form_options(pairs) == {"size": "8"}


def test_all_words_stand_in_one_place() -> None:
    """No template holds a word of its own: only markup, and names of the catalogue."""
    jinja = page_environment()
    own = [
        name
        for name in jinja.list_templates()
        if (Path(understudy.__file__).parent / "web" / "templates" / name).is_file()
    ]
    assert len(own) > 10
    for name in own:
        tree = jinja.parse(jinja.loader.get_source(jinja, name)[0])  # type: ignore[union-attr]
        text = "".join(one.data for one in tree.find_all(nodes.TemplateData))
        text = re.sub(r"<[^>]*>|&\w+;", " ", re.sub(r"<[^<>]*$|^[^<>]*>", " ", text))
        plain = re.sub(r'"[^"]*"|[\w-]+=|/?>', " ", text)
        words = [one for one in re.findall(r"[A-Za-z]{3,}", plain) if one not in _MARKUP]
        assert not words, (name, words)


_MARKUP = {"checked", "selected", "open", "input", "option", "inputmode"}


def test_htmx_is_the_pinned_file_and_comes_with_its_licence() -> None:
    import hashlib

    path, _ = STATIC_FILES["htmx.min.js"]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == HTMX_2_0_11
    assert "Zero-Clause BSD" in STATIC_FILES["htmx.LICENSE.txt"][0].read_text()
    for file, _ in STATIC_FILES.values():
        assert file.is_file()


def test_the_first_page_is_light(story: Story) -> None:
    """With everything that it loads, before any compression."""
    site, _ = story
    page = site.get("/")
    loaded = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)
    assert len(loaded) == 5
    sizes = [len(site.get(path).content) for path in loaded]
    assert len(page.content) + sum(sizes) < 150_000


def test_a_command_names_paths_as_they_are_typed_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["check", f"{tmp_path}/a", f"--test=/mnt{tmp_path}/b", f"--encoder=onnx:{tmp_path}/c"]
    assert command_line_of(words) == f"understudy check a --test=/mnt{tmp_path}/b --encoder=onnx:c"


def test_strings_can_be_named_in_templates() -> None:
    def keys(content: object) -> Iterator[str]:
        if isinstance(content, dict):
            for name, value in content.items():
                yield str(name)
                yield from keys(value)

    assert not [name for name in keys(strings()) if hasattr(dict, name)]


def test_a_folder_that_is_called_as_an_option_stays_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command, copied, was of another epsilon and no dataset; and its page failed."""
    monkeypatch.chdir(tmp_path)
    words = ["synthesize", f"{tmp_path}/--epsilon=9", f"--public={tmp_path}/-p", "--epsilon=1"]
    line = command_line_of(words)
    assert line == "understudy synthesize ./--epsilon=9 --public=-p --epsilon=1"
    assert "'./--epsilon=9'" in copy_texts(line)["python"]


def test_a_run_that_goes_on_and_waits_has_no_empty_state(story: Story) -> None:
    site, token = story
    assert site.post("/runs/resume", token, run="data/run 1").status_code == 303
    assert "<p>, " not in site.get("/run", run="data/run 1").text
    site.post("/runs/cancel", token, run="data/run 1")

"""``understudy recipe``: several commands from one file, checked before the first one runs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.processes import Commands
from tests.run.samples import class_folders, embeddings

from understudy.cli.main import app
from understudy.core.errors import InputError, RunError
from understudy.run.config import make_config
from understudy.run.recipe import carry_out, read_steps


def commands() -> Mapping[str, Any]:
    import typer

    return typer.main.get_command(app).commands  # type: ignore[attr-defined,no-any-return]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Private embeddings, others, and the recipe of a study, in the present folder."""
    monkeypatch.chdir(tmp_path)
    embeddings(tmp_path / "private.npz")
    embeddings(tmp_path / "others.npz", seed=1)
    return tmp_path


STUDY: list[dict[str, dict[str, Any]]] = [
    {
        "synthesize": {
            "source": "private.npz",
            "out": "study/all",
            "epsilon": 1,
            "settings": {"clusters": 1},
            "ledger": "ledger.db",
        }
    },
    {"select": {"candidates": "study/all", "keep": "50%", "out": "study/half"}},
    {"evaluate": {"folder": "study/half", "real": "private.npz", "test": "others.npz"}},
    {"report": {"folder": "study/half", "public": "study.html"}},
]


def written(site: Path, steps: object) -> Path:
    path = site / "study.yaml"
    path.write_text(yaml.safe_dump(steps))
    return path


def run(site: Path, steps: object = STUDY) -> list[str]:
    """What a recipe says of its steps."""
    lines: list[str] = []
    known = commands()
    carry_out(read_steps(written(site, steps), known, "none"), known, lines.append)
    return lines


def changed(number: int, **options: Any) -> list[dict[str, dict[str, Any]]]:
    """The study with other options in one step; None leaves one out."""
    steps = json.loads(json.dumps(STUDY))
    ((command, known),) = steps[number - 1].items()
    merged = {key: value for key, value in {**known, **options}.items() if value is not None}
    steps[number - 1] = {command: merged}
    return steps


@pytest.mark.slow
def test_a_recipe_runs_each_step_once(site: Path) -> None:
    names = ["step 1 (synthesize)", "step 2 (select)", "step 3 (evaluate)", "step 4 (report)"]
    assert run(site) == names
    evaluation = site / "study" / "half" / "owner" / "evaluation.json"
    assert evaluation.is_file()
    assert "at epsilon 1" in (site / "study.html").read_text()
    before = evaluation.stat().st_mtime_ns, (site / "ledger.db").stat().st_mtime_ns
    assert run(site) == [f"{name}: done before" for name in names]
    assert (evaluation.stat().st_mtime_ns, (site / "ledger.db").stat().st_mtime_ns) == before
    # What was done is known of the runs themselves where it was not recorded.
    (site / "study" / "all" / "owner" / "recipe.json").unlink()
    assert run(site)[:3] == [names[0], f"{names[0]}: done before", f"{names[1]}: done before"]
    assert run(site, changed(3, rows=50)) == [
        *(f"{name}: done before" for name in names[:2]),
        *names[2:],
    ]
    with pytest.raises(RunError, match="other settings"):
        run(site, changed(2, keep="20%"))


def test_a_recipe_ends_with_the_step_that_is_stopped(understudy: Commands, site: Path) -> None:
    """Ctrl-C stopped one step: it was recorded as done, and the next one charged another run."""
    second = changed(1, source=str(site / "others.npz"), out=str(site / "second"))[0]
    first = changed(1, source=str(site / "private.npz"), out=str(site / "first"))[0]
    for step in (first, second):
        step["synthesize"]["ledger"] = str(site / "ledger.db")
    words = "recipe", str(written(site, [first, second])), "--yes"
    moment = "understudy.privacy.account:Account.reserve", 1, "after"
    ended = understudy.run(*words, fault=(*moment, "SIGTERM"))
    assert ended.code == 143, ended.err
    assert "epsilon 1 was charged before this" in ended.err
    assert "step 2" not in ended.out
    assert not (site / "second").exists()
    ended = understudy.run(*words)
    assert ended.code == 0, ended.err
    assert "done before" not in ended.out
    assert all((site / name / "release").is_dir() for name in ("first", "second"))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ({"select": {}}, "a recipe is a list"),
        ([], "a recipe is a list"),
        ([{"select": None}], "step 1 .select. has no options"),
        ([{"select": {}, "report": {}}], "step 1 is no command with options"),
        ([{"selct": {"out": "a"}}], "Did you mean 'select'"),
        (changed(2, kep=1), r"step 2 \(select\).*'kep'"),
        (changed(2, keep=None), r"step 2 \(select\).*keep is missing"),
        (changed(2, keep="lots"), r"step 2 \(select\): keep is a share"),
        (changed(2, resume=True), r"'resume'"),
        (changed(2, out=None), "names no out"),
        (changed(2, out="study/all"), "an earlier step writes to"),
        (changed(2, private="private.npz"), "the selection itself leaks"),
        (changed(1, epsilon="much"), r"step 1 \(synthesize\)"),
        (changed(1, settings=["clusters"]), r"step 1 \(synthesize\): --set takes NAME=VALUE"),
        (
            changed(1, settings={"clusterz": 1}),
            r"step 1 \(synthesize\): unknown setting 'clusterz'",
        ),
        (changed(1, method="clusters"), r"step 1 \(synthesize\): unknown method 'clusters'"),
        (changed(1, source="nowhere"), "source is nowhere, and there is no such file"),
        (changed(3, folder="study/other"), "folder is study/other"),
        (changed(3, seeds="two"), r"step 3 \(evaluate\)"),
        ([{"sample": {"prompt": "a dog", "out": "a"}}], "say classes"),
    ],
)
def test_a_step_that_makes_no_sense_is_refused_before_the_first_one_runs(
    site: Path, steps: object, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        run(site, steps)
    assert not (site / "study").exists()


def test_an_input_may_say_how_it_is_read(site: Path) -> None:
    steps = written(site, changed(1, source="private.npz?folders=all"))
    assert len(read_steps(steps, commands(), "none")) == len(STUDY)


def test_the_recipe_of_the_page_is_one(site: Path, repository: Path) -> None:
    page = (repository / "docs" / "recipes.md").read_text(encoding="utf-8")
    (site / "page.yaml").write_text(page.split("```yaml\n")[1].split("```")[0])
    for name in ("photos", "test"):
        class_folders(site / name, {"cat": 3, "dog": 3})
    steps = read_steps(site / "page.yaml", commands(), "none")
    assert [step.command for step in steps] == ["synthesize", "select", "evaluate", "report"]


def test_a_list_of_names_with_commas_is_the_list_of_the_command(site: Path) -> None:
    names = ["cat, tabby", '7" wide', "dog"]
    (step,) = read_steps(written(site, changed(1, classes=names)[:1]), commands(), "none")
    text = step.words[step.words.index("--classes") + 1]
    config = make_config({"source": "x", "out": "o", "epsilon": 1, "classes": text})
    assert config.data.classes == tuple(names)

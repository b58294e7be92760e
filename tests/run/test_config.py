"""Options from a file, from the command line and from Python: the same names, checked the same."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from tests.run.samples import QUICK, class_folders, quick_run

from understudy.backends.chat.prompt_templates import load_prompts
from understudy.core.errors import BackendError, ConfigError
from understudy.core.roles import ROLES
from understudy.data import open_source
from understudy.evidence.owner_facts import read_facts
from understudy.methods.clustering.algorithm import ClusteringParams
from understudy.run.config import make_config, make_params, read_config, run_options

EVERY_OPTION = {
    "source": "scans",
    "out": "result",
    "method": "clustering",
    "epsilon": 2.5,
    "delta": 1e-6,
    **{role: f"family:{role}" for role in ROLES},
    "settings": {"clusters": 3, "filter": "both"},
    "count": 500,
    "seed": 4,
    "unit": "patient",
    "unit_from": None,
    "unit_from_name": None,
    "unit_rows": 5,
    "accept_epsilon": True,
    "quality_share": "2%",
    "otherwise": "alignment",
    "candidates_public": True,
    "adjacency": "replace-one",
    "ledger": "books.db",
    "test": "held-out",
    "test_rows": 300,
    "size": 32,
    "fit": "pad",
    "label": "Smiling",
    "classes": ["1", "-1"],
    "channels": 3,
    "hold_out": "5%",
    "format": "parquet",
    "licence": "cc-by-4.0",
    "contact": "data@hospital.example",
    "publish_total": True,
    "resume": True,
    "dry_run": True,
    "skip_bad": True,
    "watch": True,
    "quality": "piqe",
    "quality_threshold": 20.0,
    "images_per_embedding": 2,
    "tune": "quick",
    "engine": "ray",
    "ray_address": "127.0.0.1:6379",
    "ray_trusted": True,
    "allow_remote_private": "api.example.org",
    "max_calls": 5000,
    "max_cost": 2.5,
    "device": "cpu",
}


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_a_file_may_hold_every_option(tmp_path):
    assert sorted(EVERY_OPTION) == sorted(run_options())
    config = make_config(read_config(write(tmp_path / "run.yaml", EVERY_OPTION)))
    expected = {**EVERY_OPTION, "out": Path("result"), "classes": ("1", "-1")}
    assert config.as_options() == expected


def test_a_unit_comes_from_one_place(tmp_path):
    names = {"source": "a", "out": "b", "epsilon": 1.0}
    config = make_config({**names, "unit_from_name": r"case_(\d+)"})
    assert config.privacy.privacy_unit.name == r"rows sharing 'case_(\d+) of its name'"
    assert make_config({**names, "unit_from": "folder"}).privacy.unit_column == "its folder"
    with pytest.raises(ConfigError, match="say once whose image it is"):
        make_config({**names, "unit": "patient", "unit_from": "folder"})


def test_settings_may_be_called_as_on_the_command_line(tmp_path):
    path = write(tmp_path / "run.yaml", {"set": {"clusters": 2}})
    assert read_config(path) == {"settings": {"clusters": 2}}
    path = write(tmp_path / "run.yaml", {"set": {"clusters": 2}, "settings": {"clusters": 3}})
    with pytest.raises(ConfigError, match="'set' and 'settings' are the same"):
        read_config(path)


def test_an_unknown_key_is_refused_with_the_nearest_name(tmp_path):
    with pytest.raises(ConfigError, match=r"'epsilom'.*Did you mean 'epsilon'\?"):
        read_config(write(tmp_path / "run.yaml", {"epsilom": 1}))
    with pytest.raises(ConfigError, match=r"'cluster'.*Did you mean 'clusters'\?"):
        make_params(ClusteringParams, {"cluster": 1})
    with pytest.raises(ConfigError, match=r"unknown option 'encodr'.*'encoder'"):
        make_config({"source": "a", "out": "b", "epsilon": 1.0, "encodr": "x"})


@pytest.mark.parametrize("names", [("epsilon", "epsilon"), ("unit-rows", "unit_rows")])
def test_a_name_that_comes_twice_is_refused(tmp_path, names):
    (tmp_path / "run.yaml").write_text("source: a\n{}: 1\n{}: 10\n".format(*names))
    with pytest.raises(ConfigError, match=f"{names[1]} comes twice in what begins in line 1"):
        read_config(tmp_path / "run.yaml")


LAUGHS = "[&a0 [x, x, x, x, x, x, x, x, x, x]" + "".join(
    f", &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)
)
"""A list that is ten thousand million values long, by its aliases."""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"source: x\nepsilon: {LAUGHS}]", "its aliases .* make over 1,000,000 values"),
        ("settings: &a\n  all: [*a]", "its aliases"),
        ("epsilon: !!int abc", "invalid literal"),
        ("epsilon: !!bool abc", "no such value"),
        ("epsilon: !!timestamp 9999", "no such value"),
        ("source: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
    ],
)
def test_a_hostile_file_is_refused(tmp_path, text, words):
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(ConfigError, match=f"run.yaml: .*{words}"):
        read_config(tmp_path / "run.yaml")
    (tmp_path / "facts.yaml").write_text(text.replace("source", "author"))
    with pytest.raises(ConfigError, match=f"facts.yaml: .*{words}"):
        read_facts(tmp_path / "facts.yaml")
    (tmp_path / "prompts.yaml").write_text(text)
    with pytest.raises(BackendError, match=f"prompts.yaml: .*{words}"):
        load_prompts(str(tmp_path / "prompts.yaml"))


def test_aliases_of_usual_size_are_read(tmp_path):
    (tmp_path / "run.yaml").write_text(
        "source: &here photos\nout: *here\nsettings: {a: &b [1], c: *b}"
    )
    assert read_config(tmp_path / "run.yaml")["out"] == "photos"


def test_text_becomes_the_type_that_is_wanted():
    config = make_config(
        {
            "source": "a",
            "out": "b",
            "epsilon": "0.5",
            "count": "12",
            "size": "none",
            "skip_bad": "TRUE",
            "resume": "false",
            "decoder": "none",
        }
    )
    assert (config.privacy.epsilon, config.output.count, config.data.size) == (0.5, 12, None)
    assert (config.data.skip_bad, config.output.resume) == (True, False)
    assert config.models.roles["decoder"] == "none"  # the word means something there
    params = make_params(
        ClusteringParams,
        {
            "clusters": "8",
            "conditional": "false",
            "covariance": "none",
            "filter": "none",
            "normalise": "True",
        },
    )
    assert params == ClusteringParams(clusters=8, conditional=False, normalise=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": "much"}, "'rest', or a share such as 10%; found 'much'"),
        ({"epsilon": True}, "epsilon must be a number"),
        ({"epsilon": 0}, "positive"),
        ({"epsilon": float("nan")}, "epsilon must be a finite number, found nan"),
        ({"epsilon": float("inf")}, "epsilon must be a finite number, found inf"),
        ({"delta": 1.0}, "between 0 and 1"),
        ({"count": 1.5}, "count must be a whole number, found 1.5"),
        ({"count": "1.5"}, "count must be a whole number"),
        ({"count": 0}, "count must be 1 or more"),
        ({"count": float("inf")}, "count must be a whole number, found inf"),
        ({"seed": None}, "seed must be a whole number"),
        ({"seed": -1}, "seed must be 0 or more"),
        ({"size": 0}, "size must be 1 or more"),
        ({"unit_rows": 0}, "at least 1 row"),
        ({"unit_rows": 60_000}, "unit_rows must be at most 50000, found 60000"),
        ({"skip_bad": 1}, "skip_bad must be true or false, found 1"),
        ({"method": 3}, "method must be text, found 3"),
        ({"format": "jpeg"}, "png"),
        ({"adjacency": "swap"}, "add-remove"),
        ({"settings": [1]}, "settings is a mapping"),
        ({"settings": "clusters"}, "settings is a mapping"),
        ({"classes": "cat"}, "2 to 10,000 names, found 1: cat"),
        ({"classes": "cat,dog,cat"}, "cat comes twice"),
        ({"classes": "cat,,dog"}, "a name is empty"),
        ({"classes": [True, False]}, "yes and no stand in quotes"),
        ({"hold_out": "some"}, "--hold-out is a share up to 50%, such as 5%"),
        ({"hold_out": 0}, "--hold-out is a share"),
        ({"hold_out": 200}, "--hold-out is a share"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(options, words):
    with pytest.raises(ConfigError, match=words):
        make_config({"source": "a", "out": "b", "epsilon": 1.0, **options})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"clusters": "many"}, "clusters must be a whole number, found 'many'"),
        ({"clusters": 0}, "clusters must be 1 or more"),
        ({"covariance": "round"}, "covariance is one of spherical"),
        ({"filter": "all"}, "filter is one of"),
        ({"conditional": "yes"}, "conditional must be true or false"),
    ],
)
def test_a_setting_of_the_wrong_type_or_out_of_range_is_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        make_params(ClusteringParams, settings)


def test_settings_of_numpy_are_written_like_any(tmp_path):
    """``run.json`` took none, so a run of them ended in a traceback after its charge."""
    source = class_folders(tmp_path / "scans", {"cat": 30, "dog": 30})
    settings = {**QUICK, "clusters": np.int64(1)}
    run = quick_run(source, tmp_path, settings=settings)
    assert json.loads((run.folder / "owner" / "run.json").read_text())["settings"]["settings"] == {
        **QUICK,
        "clusters": 1,
    }


def test_what_a_resume_must_agree_on_is_all_that_shapes_the_release():
    one = make_config({"source": "a", "out": "b", "epsilon": 1.0, "size": 8})
    assert set(EVERY_OPTION) - set(one.identity()) == {
        *("out", "resume", "dry_run", "test", "test_rows", "ledger", "licence", "watch"),
        *("accept_epsilon", "contact", "publish_total", "max_calls", "max_cost"),
        *("engine", "ray_address", "ray_trusted"),
    }
    for name, value in EVERY_OPTION.items():
        if name in one.identity():
            other = make_config({"source": "a", "out": "b", "epsilon": 1.0, "size": 8, name: value})
            same = one.as_options()[name] == value
            assert (other.identity() == one.identity()) == same, name


def test_the_name_of_a_dataset_says_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Datasets given as ``.`` were all called ``.`` in ledger and report."""
    class_folders(tmp_path / "owls", {"cat": 2, "dog": 2}, (8, 8, 1))
    (tmp_path / "link").symlink_to(tmp_path / "owls" / "cat")
    for place, name, expected in (
        ("owls", ".", "../owls"),
        ("owls/cat", "..?folders=all", "../../owls?folders=all"),
        (".", "owls/.", "owls"),
        (".", "owls", "owls"),
        (".", "link/..", "link/.."),  # which is not beside the link
    ):
        monkeypatch.chdir(tmp_path / place)
        run = make_config({"source": name, "epsilon": 1.0, "out": tmp_path / "out"})
        assert (open_source(name).name, run.data.source) == (expected, expected)

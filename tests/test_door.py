"""The public API: every option written out and typed, everything imported when first used."""

import inspect
import os
import subprocess
import sys
import tomllib
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

import understudy
from tests.run.samples import class_folders
from understudy.cli.main import app
from understudy.cli.program import COMMAND_TABLE
from understudy.core.errors import ConfigError
from understudy.core.option import kinds_of
from understudy.core.roles import ROLES
from understudy.evaluation.inputs import EvaluationOptions
from understudy.planning.check import check_source
from understudy.planning.dry import PlanOptions
from understudy.run.config import make_config, run_options
from understudy.run.run_result import Result

WIDER = {
    "source": {str, Path},
    "out": {str, Path},
    "test": {str, Path, type(None)},
    "settings": {typing.Mapping[str, typing.Any], type(None)},
}
"""Options for which Python takes more than a file: a path, or nothing."""


def parameters(function: object) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function, eval_str=True).parameters)  # type: ignore[arg-type]


def test_every_option_of_a_run_is_written_out_with_its_type_and_its_default() -> None:
    written, declared = parameters(understudy.synthesize), run_options()
    assert written.pop("progress").default == "auto"  # of the call, not of the run
    assert {*written} == {*declared} - {"dry_run"}
    blank = make_config({"source": "a", "out": "b", "epsilon": 1.0}).as_options()
    for name, one in written.items():
        assert one.kind is not inspect.Parameter.VAR_KEYWORD
        if name not in ("source", "out", "epsilon", "settings"):
            assert one.default == blank[name], name
        if name not in ("classes", "channels", *WIDER):
            assert set(kinds_of(one.annotation)) == set(kinds_of(declared[name])), name
    for name, kinds in WIDER.items():
        assert {str(kind) for kind in kinds_of(written[name].annotation)} == {
            str(kind).replace("typing.Mapping", "collections.abc.Mapping") for kind in kinds
        }


def test_an_audit_takes_every_role_and_options_of_a_run_with_the_same_defaults() -> None:
    blank = make_config({"source": "a", "out": "b", "epsilon": 1.0}).as_options()
    for name, one in parameters(understudy.audit).items():
        if name in blank and name not in ("source", "settings"):
            assert one.default == blank[name], name
    with pytest.raises(understudy.InputError, match=r"'encodr'.*'encoder'"):
        understudy.audit("data", encodr="embedded:dct")  # type: ignore[call-arg]
    options = typing.get_args(typing.get_type_hints(understudy.audit)["options"])[0]
    assert set(ROLES) <= set(typing.get_type_hints(options))


def test_an_evaluation_has_the_options_and_defaults_that_are_declared() -> None:
    written = parameters(understudy.evaluate)
    for name, one in inspect.signature(EvaluationOptions).parameters.items():
        assert written[name].default == one.default


def ended_well(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Code that a process of its own has run to its end."""
    words, environment = [sys.executable, "-c", code], {**os.environ, **variables}
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True)


def test_a_public_name_is_what_it_says_whatever_was_imported_before() -> None:
    """Functions have the names of packages: ``understudy.audit``, ``understudy.report``."""
    code = (
        "import understudy, understudy.audit.audit, understudy.report.card\n"
        "assert 'numpy' in __import__('sys').modules\n"
        "for name in understudy.__all__:\n"
        "    found = getattr(understudy, name)\n"
        "    assert callable(found), name\n"
    )
    assert ended_well(code).stderr == ""
    assert sorted(understudy.__all__) == dir(understudy)
    with pytest.raises(AttributeError, match="has no attribute 'synthesise'"):
        _ = understudy.synthesise  # type: ignore[attr-defined]


def test_an_import_loads_neither_arrays_nor_the_readers_of_options() -> None:
    code = (
        "import understudy.cli.main, sys; print({'numpy', 'pydantic', 'yaml'} & set(sys.modules))"
    )
    assert ended_well(code).stdout == "set()\n"


MODELS = ("torch", "transformers", "diffusers", "onnxruntime", "sklearn", "pandas")
ARRAYS = (*MODELS, "scipy", "pyarrow", "opendp", "dp_accounting", "sqlalchemy", "PIL", "jinja2")
PARTS = tuple(f"scipy.{part}" for part in ("fft", "linalg", "ndimage", "optimize", "sparse"))
"""Parts of SciPy are imported by their first use; SciPy alone costs next to nothing."""


@pytest.mark.parametrize(
    ("commands", "packages"),
    [
        (
            ["ledger --help", "synthesize --help", "device add --help", "ledger verify"],
            (*ARRAYS, "numpy", "pydantic", "yaml"),
        ),
        (["runs {run}"], (*ARRAYS, "yaml", "rich.progress")),
        (
            ["verify {run}"],  # which looks at the samples
            (*MODELS, "opendp", "dp_accounting", "sqlalchemy", "jinja2", "yaml"),
        ),
        (["backends", "methods"], (*MODELS, *PARTS, "pyarrow", "opendp", "jinja2", "pydantic")),
    ],
)
def test_what_needs_no_model_imports_none(
    commands: list[str], packages: tuple[str, ...], result: Result
) -> None:
    """Each of these packages takes a twentieth of a second or more of every start."""
    code = (
        "import sys\n"
        "from understudy.cli.main import main\n"
        f"for words in {[one.format(run=result.folder) for one in commands]}:\n"
        "    sys.argv[1:] = words.split()\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as end:\n"
        "        assert not end.code\n"
        f"print('loaded:', sorted({set(packages)} & set(sys.modules)))\n"
    )
    ended = ended_well(code, XDG_DATA_HOME=str(result.folder.parent))
    assert ended.stdout.splitlines()[-1] == "loaded: []"


def test_a_device_says_what_left_it_without_pytorch() -> None:
    """It is an extra: of a device, only training and models of its own need it."""
    modules = ("device.disclosures", "device.outbox", "device.photo_store", "web.device_pages")
    code = "".join(f"import understudy.{module}\n" for module in modules)
    code += f"import sys; print('loaded:', sorted({set(MODELS)} & set(sys.modules)))\n"
    assert ended_well(code).stdout.splitlines()[-1] == "loaded: []"


def test_evidence_of_a_release_needs_no_extra() -> None:
    """An auditor who has a release alone has the package alone, too."""
    missing = ("onnx", "onnxruntime", "torch", "sqlalchemy", "fastapi")
    code = f"import sys; sys.modules |= dict.fromkeys({missing}); "
    assert ended_well(code + "import understudy.evidence.pack").stdout == ""


def test_a_picture_from_a_text_needs_neither_diffusers_nor_transformers(tmp_path: Path) -> None:
    """They take longer to import than sixteen pictures to draw."""
    pytest.importorskip("diffusers")
    packages = ("diffusers", "transformers", "peft", "sympy", "torch._dynamo", "scipy.stats")
    code = (
        "import sys; from understudy.cli.main import main\n"
        f"sys.argv[1:] = ['sample', 'a dog', '--count', '1', '--out', {str(tmp_path / 'out')!r}]\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        f"print('loaded:', sorted({set(packages)} & set(sys.modules)))\n"
    )
    assert ended_well(code).stdout.splitlines()[-1] == "loaded: []"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """A finished run, and the ledger that it was charged to."""
    place = tmp_path_factory.mktemp("site")
    scans = class_folders(place / "scans", {"cat": 20, "dog": 20}, (6, 6, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(place))
        settings = {"clusters": 1, "components": 8}
        return understudy.synthesize(
            scans, out=place / "run", epsilon=1.0, count=8, settings=settings, progress="none"
        )


def test_sqlalchemy_comes_with_the_server_alone(repository: Path, tmp_path: Path) -> None:
    """Without it the ledger works, and the server names the extra that brings it."""
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert not [one for one in project["dependencies"] if one.startswith("sqlalchemy")]
    assert [name for name, needs in extras.items() if "sqlalchemy>=2" in needs] == ["server"]
    code = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "from understudy.privacy.ledger.ledger import Ledger\n"
        f"assert Ledger({str(tmp_path / 'ledger.db')!r}).verify() == []\n"
        "import understudy.server.job_store\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert "MissingExtra" in ended.stderr.splitlines()[-1]
    assert "understudy[server]" in ended.stderr


def test_a_library_that_memory_does_not_suffice_for_is_a_sentence(tmp_path: Path) -> None:
    """OpenDP's, under 600 MB of memory, was a traceback."""
    (tmp_path / "opendp").mkdir()
    (tmp_path / "opendp" / "__init__.py").write_text(
        "raise Exception('Unable to load it', 'a path', OSError('failed to map segment'))"
    )
    rows = tmp_path / "rows.npz"
    np.savez(rows, embeddings=np.eye(8, dtype=np.float32), labels=np.arange(8) % 2)
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    words = ["synthesize", str(rows), "--epsilon", "1", "--out", str(tmp_path / "out"), "--yes"]
    ended = subprocess.run(
        [sys.executable, "-m", "understudy", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert ended.returncode == 1
    assert "Unable to load it: failed to map segment. The memory may be full" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("call", ["verify", "report", "resample", "evaluate", "evidence"])
def test_what_is_no_folder_is_refused_in_a_sentence(call: str, tmp_path: Path) -> None:
    options = {
        "resample": {"count": 1},
        "evaluate": {"real": tmp_path},
        "evidence": {"to": tmp_path / "pack"},
    }
    given = np.zeros(3)  # was a TypeError
    with pytest.raises(ConfigError, match=r"named by its folder, .* found ndarray"):
        getattr(understudy, call)(given, **options.get(call, {}))


def test_a_result_stands_for_its_folder_and_is_a_line(result: Result, tmp_path: Path) -> None:
    assert repr(result) == f"<Result {result.folder}: 8 samples, epsilon 1>"
    assert understudy.verify(result).sound
    more = understudy.resample(result, count=4, out=tmp_path / "more", progress="none")
    assert (more.folder, more.facts["rows"]) == (tmp_path / "more", 4)
    report, both = understudy.report(result), understudy.compare([result, more])
    assert report.folder == result.folder
    with pytest.raises(ConfigError, match="two or more different releases, found 1"):
        understudy.compare(result)  # type: ignore[arg-type]  # was a TypeError
    assert [one.name for one in both.releases] == ["run", "more"]
    plan = understudy.dry_run(result.folder.parent / "scans", epsilon=1.0, size=8)
    assert max(len(repr(one)) for one in (report, both, plan)) < 60 + len(str(result.folder))


def test_a_plan_is_made_of_options_of_a_run_and_leaves_nothing(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    declared = run_options()
    for name, hint in typing.get_type_hints(PlanOptions).items():
        if name not in ("classes", "settings"):
            assert set(kinds_of(hint)) == set(kinds_of(declared[name])), name
    ledger = str(tmp_path / "ledger.db")
    scans, settings = result.folder.parent / "scans", {"clusters": 2}
    plans = [
        understudy.dry_run(scans, epsilon=epsilon, settings=settings, ledger=ledger)
        for epsilon in (1.0, 2.0)
    ]
    assert plans[0].mu < plans[1].mu
    assert (plans[0].settings["clusters"], plans[0].after) == (2, pytest.approx(1.0))
    assert [path.name for path in tmp_path.iterdir() if "ledger" not in path.name] == []
    with pytest.raises(understudy.InputError, match="unknown option 'cluster'"):
        understudy.dry_run(scans, epsilon=1.0, cluster=2)  # type: ignore[call-arg]


def test_a_check_and_a_recommendation_are_those_of_the_command_line_and_leave_nothing(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scans, ledger = result.folder.parent / "scans", str(tmp_path / "ledger.db")
    checked = understudy.check(scans, size=4, progress="none")
    declared = make_config({"source": str(scans), "out": "out", "epsilon": 1.0, "size": 4})
    assert (checked, checked.shape) == (check_source(declared), (4, 4, 1))
    recommended = understudy.plan(
        scans, epsilon=2.0, base=str(scans), ledger=ledger, progress="none"
    )
    assert recommended.choices[0].option == "--method alignment"
    assert recommended.plan is not None
    assert recommended.plan.epsilon == pytest.approx(2.0)
    assert [path.name for path in tmp_path.iterdir() if "ledger" not in path.name] == []
    with pytest.raises(understudy.InputError, match="unknown option 'cluster'"):
        understudy.check(scans, cluster=2)  # type: ignore[call-arg]
    with pytest.raises(understudy.InputError, match="unknown option 'cluster'"):
        understudy.plan(scans, epsilon=1.0, cluster=2)  # type: ignore[call-arg]


def test_arrays_are_refused_with_what_to_do(tmp_path: Path) -> None:
    images: Any = np.zeros((4, 8, 8, 1), dtype=np.uint8)
    remedy = "source is a folder, a file or hf:NAME, found ndarray. Arrays are read from a file"
    with pytest.raises(understudy.InputError, match=remedy):
        understudy.synthesize(images, out=tmp_path / "out", epsilon=1.0)
    with pytest.raises(understudy.InputError, match=remedy):
        understudy.dry_run(images, epsilon=1.0)
    with pytest.raises(understudy.InputError, match=remedy):
        understudy.check(images)
    with pytest.raises(understudy.InputError, match=remedy):
        understudy.plan(images, epsilon=1.0)
    assert not list(tmp_path.iterdir())


def test_the_table_of_commands_says_what_they_say() -> None:
    """The program's help is made from the table, so that it imports no command."""
    program: Any = typer.main.get_command(app)
    assert list(program.commands) == list(COMMAND_TABLE)
    for name, (_, sentences) in COMMAND_TABLE.items():
        own = str(program.commands[name].help).partition("\n\n")[0]
        assert " ".join(own.split()) == sentences

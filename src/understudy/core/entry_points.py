"""What packages register: methods, backends, sources and sanitizers, our own among them.

Each is an entry point of a group. The groups are the whole door: a plug-in is an installed package
with an entry point, and nothing here changes for it.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from traceback import walk_tb
from typing import Any

from understudy.core.errors import UnderstudyError

METHODS = "understudy.methods"
BACKENDS = "understudy.backends"
SOURCES = "understudy.sources"
SANITIZERS = "understudy.sanitizers"

DEFAULT_METHOD = "clustering"
"""The method of a run that names none."""

SELECTION_METHOD = "selection"
"""The method of ``understudy select``."""

PACKAGE = "understudy"
_BACKENDS, _OWN_MODELS = f"{PACKAGE}.backends.", f"{PACKAGE}.backends.embedded"
_NO_RUNTIMES = {PACKAGE, "numpy", "scipy", *sys.stdlib_module_names}

BUILT_IN: dict[str, dict[str, str]] = {
    METHODS: {
        "alignment": "understudy.methods.alignment.algorithm:METHOD",
        "clustering": "understudy.methods.clustering.algorithm:METHOD",
        "evolution": "understudy.methods.evolution.algorithm:METHOD",
        "finetuning": "understudy.methods.finetuning.algorithm:METHOD",
        "labelling": "understudy.methods.labelling.algorithm:METHOD",
        "selection": "understudy.methods.selection.algorithm:METHOD",
    },
    BACKENDS: {
        "embedded": "understudy.backends.embedded:backend",
        "hf": "understudy.backends.hub.hub_models:backend",
        "inception": "understudy.backends.inception:backend",
        "litert": "understudy.backends.litert:backend",
        "onnx": "understudy.backends.onnx:backend",
        "openai": "understudy.backends.hosted.hosted_models:backend",
    },
    SOURCES: {"playhouse": "understudy.playhouse:open_playhouse"},
    SANITIZERS: {
        "box": "understudy.methods.sanitize.sanitizers:BoxSanitizer",
        "edges": "understudy.methods.sanitize.sanitizers:EdgesSanitizer",
        "noise": "understudy.methods.sanitize.sanitizers:NoiseSanitizer",
        "pose": "understudy.methods.sanitize.sanitizers:PoseSanitizer",
        "segment": "understudy.methods.sanitize.sanitizers:SegmentSanitizer",
        "text": "understudy.methods.sanitize.sanitizers:TextSanitizer",
    },
}
"""The entry points that ``pyproject.toml`` declares for this package, which needs no installation:
a source tree on the path works like an installed package, and so does one installed long ago."""


@dataclass(frozen=True, slots=True, order=True)
class Registration:
    """An object that a package registers under a name."""

    package: str
    value: str
    name: str
    group: str

    def load(self, kind: str, error: Callable[[str], UnderstudyError]) -> Any:
        """Import the object."""
        try:
            return EntryPoint(name=self.name, value=self.value, group=self.group).load()
        except (Exception, SystemExit) as problem:  # whatever a plug-in raises at its import
            raise error(
                f"the {kind} {self.name!r} ({self.value} of the package {self.package}) cannot "
                f"be loaded: {type(problem).__name__}: {problem}"
            ) from problem


def registered(group: str) -> dict[str, list[Registration]]:
    """Everything that is registered in a group, by its name; more than one of a name is a clash."""
    return _registered(group, tuple((place, _changed(place)) for place in sys.path))


def _changed(place: str) -> int:
    try:
        return os.stat(place or ".").st_mtime_ns
    except OSError:
        return 0


@functools.lru_cache(maxsize=64)
def _registered(group: str, _: tuple[tuple[str, int], ...]) -> dict[str, list[Registration]]:
    """The same, read once for a path of packages and the times at which its folders changed."""
    by_name = {
        name: [Registration(PACKAGE, value, name, group)]
        for name, value in BUILT_IN.get(group, {}).items()
    }
    for point in entry_points(group=group):
        package = point.dist.name if point.dist else point.value.partition(".")[0]
        if package == PACKAGE:
            continue
        registration = Registration(package, point.value, point.name, group)
        if registration not in by_name.setdefault(point.name, []):
            by_name[point.name].append(registration)
    return by_name


def registration_of(
    group: str, name: str, kind: str, error: Callable[[str], UnderstudyError]
) -> Registration | None:
    """The one registration of a name; None where there is none.

    Private images go to whatever is loaded here, so no package may take over a name of another.
    """
    registrations = sorted(registered(group).get(name, []))
    if len(registrations) > 1:
        owners = " and ".join(f"{one.package} ({one.value})" for one in registrations)
        raise error(
            f"the {kind} {name!r} is registered more than once: by {owners}. "
            "Uninstall all but one of these packages, or rename it in all but one"
        )
    return registrations[0] if registrations else None


def failure_of_others(error: BaseException) -> str:
    """Whose code, where in it, and what it raised, in words; empty: our own.

    That of a plug-in, or of a package that a backend hands its work to, such as Transformers.
    """
    others = _others_at_fault(error)
    return f"{others} failed: {type(error).__name__}: {error}" if others else ""


def _others_at_fault(error: BaseException) -> str:
    """Whose code and where, such as ``the plug-in NAME (FILE, line 3)``."""
    packages = {
        registration.value.partition(":")[0].partition(".")[0]: registration.package
        for group in (METHODS, BACKENDS, SOURCES, SANITIZERS)
        for registrations in registered(group).values()
        for registration in registrations
    }
    trace = [
        (frame.f_globals.get("__name__", ""), f"({frame.f_code.co_filename}, line {line})")
        for frame, line in walk_tb(error.__traceback__)
    ]
    tops = [module.partition(".")[0] for module, _ in trace]
    for top, (_, place) in zip(reversed(tops), reversed(trace), strict=True):
        if packages.get(top, PACKAGE) != PACKAGE:
            return f"the plug-in {packages[top]} {place}"
    caller = next((module for module, _ in reversed(trace) if module.startswith(PACKAGE)), "")
    if not caller.startswith(_BACKENDS) or caller.startswith(_OWN_MODELS):
        return ""
    return "" if tops[-1] in _NO_RUNTIMES else f"{tops[-1]} {trace[-1][1]}"

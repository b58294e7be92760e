"""``understudy evidence``: a folder for reviewers, ``shared/``, and one for the owner, ``owner/``.

shared/index.html, .pdf         what may be passed on: made of public facts alone
shared/registry.yaml            an entry of the registry of DP deployments, where there is DP
shared/claims.json              the pyramid of NIST SP 800-226
shared/hipaa/determination.md   for an expert, whose slots are empty
shared/SHA256SUMS               of these files
owner/index.html, .pdf          what was measured on private records (mode 0600, folder 0700)
owner/hipaa/results.md          the same for the expert
owner/facts.yaml                what only the publisher can say: to fill in
"""

from __future__ import annotations

import html
import json
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path

from understudy.core.errors import ConfigError, RunError
from understudy.core.files import close_to_others, files_below, folder_of, whole_folder
from understudy.core.ports import Events
from understudy.evidence import pages
from understudy.evidence.claims import pyramid
from understudy.evidence.measured import MeasuredRisk, measure_risk
from understudy.evidence.owner_facts import FACTS_FILE, OwnerFacts, facts_text, read_facts
from understudy.evidence.registry_entry import entry_faults, entry_text, registry_entry
from understudy.evidence.subject import OwnerSide, Subject, open_subject
from understudy.release.checksums import write_checksums
from understudy.report import public_documents
from understudy.report.rendering import markdown, rendered
from understudy.run.config import source_name
from understudy.run.progress import ProgressMode, reporting

REGISTRY_FILE = "registry.yaml"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_DIGITS = range(4, 18)  # of a number that is looked for: shorter ones come by chance
_STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.#/-])\d[\d,]*(?:\.\d+)?(?![\w/-])(?!\.\d)")


@dataclass(frozen=True, slots=True)
class EvidencePack:
    """What was written.

    Attributes:
        folder: The pack.
        kind: What it is about: ``"release"``, ``"device"`` or ``"server"``.
        files: All files by their paths in it.
        open_slots: What is still to be filled in, in ``owner/facts.yaml``.
        notes: What was not measured or not written, and why.
    """

    folder: Path
    kind: str
    files: tuple[str, ...]
    open_slots: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def shared(self) -> Path:
        """The part that may be passed on."""
        return self.folder / "shared"

    @property
    def owner(self) -> Path:
        """The part that may not."""
        return self.folder / "owner"


def evidence(
    folder: str | PathLike[str],
    *,
    to: str | PathLike[str],
    real: str | Path | None = None,
    test: str | Path | None = None,
    facts: str | PathLike[str] | None = None,
    progress: ProgressMode | Events = "auto",
) -> EvidencePack:
    """Write what a data protection officer is asked for about a release or a sanitize job.

    Nothing is charged. What is computed from private records stands in ``owner/`` alone; before
    the pack gets its name, ``shared/`` is searched for exact private numbers and names.

    Args:
        folder: A run's folder or a release; the home of a device; the data folder of a server.
        to: The pack. An earlier pack there is replaced.
        real: The private dataset of a release: attacks are run on it, for the owner.
        test: Real rows that were not in it; None: what the run held out.
        facts: A filled-in ``owner/facts.yaml``; None: that of the earlier pack there, if any.
        progress: Where events go, as for `understudy.synthesize`.

    Raises:
        InputError: The folder is none of these, the pack's place is taken, a fact is wrong, or the
            shared part would hold a private number or name.
    """
    source, place = folder_of(folder), Path(to)
    _require_free(place)
    earlier = place / "owner" / FACTS_FILE
    file = Path(facts) if facts is not None else earlier if earlier.is_file() else None
    owner_facts = read_facts(file)
    subject, owner = open_subject(source)
    if test is not None and real is None:
        raise ConfigError("--test is compared with --real: name the private dataset")
    if real is not None and subject.kind != "release":
        raise ConfigError(f"--real is for releases; {source} is the folder of a {subject.kind}")
    with reporting(progress) as events:
        risk = None
        if real is not None:
            others = None if test is None else source_name("test", test)
            risk = measure_risk(source, source_name("real", real), others, events)
        notes = list(() if risk is None else risk.notes)
        with whole_folder(place, replace=True) as partial:
            notes += _write(partial, subject, owner, risk, owner_facts)
            _require_nothing_private(partial / "shared", subject, owner, risk)
    files = tuple(sorted(files_below(place)))
    return EvidencePack(place, subject.kind, files, owner_facts.open_slots, tuple(notes))


def _write(
    folder: Path, subject: Subject, owner: OwnerSide, risk: MeasuredRisk | None, facts: OwnerFacts
) -> Iterator[str]:
    """Both parts; what could not be written, in words."""
    shared, own = folder / "shared", folder / "owner"
    for part in (shared / "hipaa", own / "hipaa"):
        part.mkdir(parents=True)
    record = subject.record
    _text(shared / "index.html", pages.shared_page(subject, facts))
    claims = [{**asdict(claim), "status": claim.status} for claim in pyramid(subject)]
    _text(shared / "claims.json", json.dumps({"framework": "NIST SP 800-226", "claims": claims}))
    determination = rendered("determination.md", subject=subject, record=record, facts=facts)
    _text(shared / "hipaa" / "determination.md", determination)
    if record is not None and record.guarantee == "differential privacy" and subject.sound:
        entry = registry_entry(record, facts)
        _text(shared / REGISTRY_FILE, entry_text(entry))
        yield from (f"{REGISTRY_FILE}: {fault}" for fault in entry_faults(entry))
    else:
        why = "the registry is of differential privacy"
        if not subject.sound:
            why = f"`understudy verify` finds faults: {subject.faults[0]}"
        yield f"{REGISTRY_FILE}: not written, as {why}"
    _text(own / "index.html", pages.owner_page(subject, owner, risk))
    lines = ["# Results of attacks", "", "**Owner only**: measured on private records.", ""]
    for section in pages.measured_sections(risk):
        lines += [f"## {section.title}", "", markdown(section.text), ""]
        if section.rows:
            lines += [_line(section.head), _line(["---"] * len(section.head))]
            lines += [*map(_line, section.rows), ""]
    _text(own / "hipaa" / "results.md", "\n".join(lines))
    _text(own / FACTS_FILE, facts_text(facts))
    yield from _as_pdf([shared / "index.html", own / "index.html"])
    write_checksums(shared)
    close_to_others(own)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown, cells))} |"


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _as_pdf(paths: Sequence[Path]) -> Iterator[str]:
    """Print pages to PDF beside them, where the system has a browser; why not, otherwise."""
    browser = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        yield "PDF: this system has no Chromium; print index.html"
        return
    for page in paths:
        with tempfile.TemporaryDirectory() as profile:
            command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu"]
            command += [f"--user-data-dir={profile}", "--no-pdf-header-footer"]
            command += [f"--print-to-pdf={page.with_suffix('.pdf')}", page.absolute().as_uri()]
            try:
                subprocess.run(command, capture_output=True, timeout=120, check=True)
            except (OSError, subprocess.SubprocessError) as error:
                yield f"PDF: the browser failed ({type(error).__name__}); print index.html"
                return


def _require_free(place: Path) -> None:
    if not place.name:
        raise RunError(f"{place}: is no name for a folder: give the pack one of its own (--to)")
    if not place.exists():
        return
    names = {path.name for path in place.iterdir()} if place.is_dir() else {"a file"}
    earlier = names == {"shared", "owner"} and (place / "shared" / "claims.json").is_file()
    if names and not earlier:
        raise RunError(f"{place} is taken: choose another --to, or remove it")


def _require_nothing_private(
    shared: Path, subject: Subject, owner: OwnerSide, risk: MeasuredRisk | None
) -> None:
    figures = {**(owner.figures or {}), **({} if risk is None else risk.figures)}
    record = subject.record
    public = " ".join(() if record is None else public_documents(record).values())
    if leaks := private_in(shared, figures, owner.words, public):
        raise RunError(
            f"the shared part would hold what is owner only: {leaks[0]}. Nothing was written. If "
            f"it stands in {FACTS_FILE}, take it out"
        )


def private_in(
    shared: Path, figures: Mapping[str, float], words: Sequence[str], public: str = ""
) -> list[str]:
    """Where files that are shared hold an exact private number, or a private name.

    Args:
        shared: Their folder.
        figures: The numbers by their names; one is recognised by four digits or more, also in
            percent, a whole number by three.
        words: The names.
        public: What may stand there whatever it says, such as a release's own documents.
    """
    forms: dict[str, str] = {}
    for name, value in figures.items():
        if not math.isfinite(value):
            continue
        if value == int(value):
            forms |= {str(abs(int(value))): name} if abs(value) >= 100 else {}
            continue
        spellings = {f"{abs(one):.{n}g}" for one in (value, 100 * value) for n in _DIGITS}
        forms |= dict.fromkeys(filter(_is_long, map(_plain, spellings)), name)
    public_forms = set(map(_plain, _NUMBER.findall(public)))
    leaks = []
    for file in sorted(path for path in shared.rglob("*") if path.suffix != ".pdf"):
        text = _STYLE.sub("", file.read_text(encoding="utf-8")) if file.is_file() else ""
        text = html.unescape(text) if file.suffix == ".html" else text
        numbers = {_plain(token): token for token in _NUMBER.findall(text)}
        for plain, token in numbers.items():
            if plain in forms and plain not in public_forms:
                leaks.append(f"{file.name} has {token}, which is {forms[plain]}")
        for word in words:
            if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text):
                leaks.append(f"{file.name} has {word!r}")
    return leaks


def _is_long(plain: str) -> bool:
    return len(plain.partition("e")[0].replace(".", "").lstrip("0")) >= _DIGITS.start


def _plain(token: str) -> str:
    """A number without separators, with no zeros that say nothing."""
    text = token.replace(",", "")
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text

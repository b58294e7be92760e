"""Attacks on what enters a run: private images as public ones, releases that are none."""

import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.fft import idctn
from tests.cli.processes import Commands
from tests.run.copied_images import CHANGES, copies, jpeg, photographs, with_a_byte
from tests.run.samples import QUICK, embeddings, tree

from understudy.core.errors import ConfigError, InputError, RunError
from understudy.core.image_identity import Looks, originals_of, same_looks
from understudy.data import open_source
from understudy.planning.dry import planned_run
from understudy.privacy.ledger.ledger import Ledger
from understudy.release.checksums import write_checksums
from understudy.release.outputs import read_json
from understudy.release.verify import verify
from understudy.run.quality_filter import fit_niqe_model
from understudy.run.select import select
from understudy.run.shared_records import PublicInput, require_no_shared_records
from understudy.run.synthesize import synthesize
from understudy.steps.niqe_model import SMALLEST_BLOCK

SILENT: dict[str, Any] = {"progress": "none"}
STEERED = {"steps": 20, "rounds": 2}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Private images, and unrelated ones of the same kind."""
    photographs(tmp_path / "private")
    photographs(tmp_path / "others", seed=1)
    return tmp_path


def recorded(site: Path) -> list[tuple[str, int, int]]:
    """Name, charges and disclosures of each dataset of the ledger."""
    with Ledger(str(site / "ledger.db")) as ledger:
        spent = [(one.name, ledger.spent(one.id)) for one in ledger.datasets()]
    return [(name, one.events, len(one.disclosures)) for name, one in spent]


def check_refused(site: Path, match: str, call: Any, *arguments: Any, **options: Any) -> None:
    """Refused with exit code 2, nothing written, nothing charged."""
    before = recorded(site)
    given = {"out": site / "out", "ledger": str(site / "ledger.db"), **SILENT, **options}
    with pytest.raises(InputError, match=match) as refusal:
        call(*arguments, **given)
    assert refusal.value.exit_code == 2
    assert not (site / "out").exists()
    assert recorded(site) == before


@pytest.mark.parametrize(
    "change",
    [
        "lossless",
        "half, mirrored, JPEG 75",
        *(
            pytest.param(change, marks=pytest.mark.slow)
            for change in CHANGES
            if change not in ("lossless", "half, mirrored, JPEG 75")
        ),
    ],
)
def test_private_images_are_no_public_candidates_however_they_are_stored(
    site: Path, change: str
) -> None:
    copy, kind = CHANGES[change]
    pool = copies(site / "private", site / "pool", copy)
    match = rf"candidates\): 24 of its 24 records are those of .*{kind}"
    dp = {"private": site / "private", "keep": "100%", "epsilon": 1.0, "candidates_public": True}
    check_refused(site, match, select, pool, settings={"steps": 20}, **dp)
    open_ = {"private": site / "private", "keep": "100%", "no_guarantee": True}
    check_refused(site, match, select, pool, settings=STEERED, **open_)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "change"),
    [
        ("public", "half, mirrored, JPEG 75"),
        ("base", "half, mirrored, JPEG 75"),
        ("contrast", "JPEG 40"),
        ("reference", "with a byte"),
    ],
)
def test_private_images_are_no_public_images_of_any_role(
    site: Path, role: str, change: str
) -> None:
    if change == "with a byte":
        pool = with_a_byte(site / "private", site / "pool")
    else:
        pool = copies(site / "private", site / "pool", CHANGES[change][0])
    match = rf"--{role}\): 24 of its 24 records are"
    methods: dict[str, dict[str, Any]] = {
        "public": {"encoder": "embedded:dct", "settings": {"clusters": 1}},
        "base": {
            "method": "alignment",
            **dict.fromkeys(("encoder", "decoder"), "embedded:dct"),
            "settings": {"clusters": 1},
        },
        "contrast": {"method": "labelling", "public": str(site / "others")},
    }
    if role == "reference":
        steered = {"no_guarantee": True, "keep": "50%", "settings": STEERED}
        options = {"private": site / "private", "reference": pool, **steered}
        check_refused(site, match, select, site / "others", **options)
        return
    options = {"epsilon": 5.0, **methods[role], role: str(pool)}
    check_refused(site, match, synthesize, site / "private", **options)
    planned = {name: value for name, value in options.items() if name != "epsilon"}
    with pytest.raises(ConfigError, match=match):  # a dry run refuses what the run does
        planned_run(site / "private", epsilon=5.0, ledger=str(site / "ledger.db"), **planned)


def test_one_private_image_among_public_ones_is_named(site: Path) -> None:
    pool = copies(site / "others", site / "pool", lambda image: image)
    (private,) = [site / "private" / "dog" / "3.jpg"]
    jpeg(Image.open(private), 70).save(pool / "dog" / "zebra.png")
    dp = {"private": site / "private", "keep": "50%", "epsilon": 1.0, "candidates_public": True}
    match = r"1 of its 25 records are those of .*, 1 by looks \(the first: .*zebra\.png"
    check_refused(site, match, select, pool, settings={"steps": 20}, **dp)


def test_unrelated_images_of_the_same_kind_pass(site: Path) -> None:
    dp = {"private": site / "private", "keep": "50%", "epsilon": 1.0, "candidates_public": True}
    places = {"out": site / "out", "ledger": str(site / "ledger.db")}
    result = select(site / "others", settings={"steps": 20}, **dp, **places, **SILENT)
    assert verify(result.release).sound


@pytest.mark.parametrize("change", ["lossless", "half, mirrored, JPEG 75"])
def test_images_of_another_dataset_of_the_ledger_are_not_public(site: Path, change: str) -> None:
    with Ledger(str(site / "ledger.db")) as ledger:
        ledger.register(open_source(site / "others"))
    pool = copies(site / "others", site / "pool", CHANGES[change][0])
    dp = {"private": site / "private", "keep": "50%", "epsilon": 1.0, "candidates_public": True}
    known = r"others \(id [0-9a-f]{16} in the ledger, private since .*\)"
    match = rf"{known}, \d+ by {CHANGES[change][1]}"
    check_refused(site, match, select, pool, settings={"steps": 20}, **dp)
    run = {"epsilon": 1.0, "encoder": "embedded:dct", "public": str(pool)}
    check_refused(site, match, synthesize, site / "private", **run)


def test_a_private_dataset_is_compared_itself_and_not_by_what_the_ledger_keeps_of_it(
    tmp_path: Path,
) -> None:
    # Coarse shapes of which the ledger keeps digests are the same in both, and fine ones are not:
    # whoever has the records sees that the images are others, before a first run and after it.
    private, public = (tmp_path / name for name in ("private", "public"))
    for seed, folder in enumerate((private, public)):
        coarse, fine = np.random.default_rng(9), np.random.default_rng(seed)
        folder.mkdir()
        for row in range(40):
            waves = np.zeros((48, 48))
            waves[:8, :8] = coarse.normal(0, 120, (8, 8))
            waves[8:, 8:] = fine.normal(0, 24, (40, 40))
            pixels = np.clip(128 + idctn(waves, norm="ortho"), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{row}.png")
    sources = open_source(private), open_source(public)
    inputs = [PublicInput("--public", sources[1])]
    with Ledger(str(tmp_path / "ledger.db")) as ledger:
        require_no_shared_records(inputs, sources[0], ledger)
        ledger.register(sources[0])
        require_no_shared_records(inputs, sources[0], ledger)
        with pytest.raises(ConfigError, match="by looks"):  # the ledger alone cannot tell
            require_no_shared_records(inputs, None, ledger)


def test_private_embeddings_are_no_candidates_in_another_file_or_precision(tmp_path: Path) -> None:
    source = embeddings(tmp_path / "private.npz", dim=32)
    with np.load(source) as arrays:
        values, labels = arrays["embeddings"].astype(np.float16), arrays["labels"]
    np.savez(tmp_path / "pool.npz", embeddings=values[::-1], labels=labels[::-1])
    dp = {"private": source, "keep": "100%", "epsilon": 1.0, "candidates_public": True}
    match = r"180 of its 180 records are those of .*, 180 by decoded values"
    check_refused(tmp_path, match, select, tmp_path / "pool.npz", **dp)


# Releases


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of images at epsilon 50, one of embeddings without a guarantee."""
    site = tmp_path_factory.mktemp("released")
    photographs(site / "private")
    codec = dict.fromkeys(("encoder", "decoder"), "embedded:dct")
    given: dict[str, Any] = {"ledger": str(site / "ledger.db"), **SILENT}
    synthesize(
        site / "private",
        out=site / "dp",
        epsilon=50.0,  # at 1, one draw in some hundreds leaves all samples to one class
        count=24,
        settings={"clusters": 1, "components": 8},
        **codec,
        **given,
    )
    select(
        photographs(site / "pool", seed=2),
        private=site / "private",
        keep="50%",
        no_guarantee=True,
        hold_out="50%",  # of 24 images: at the usual 20 % one draw in 200 holds out none
        settings=STEERED,
        out=site / "open",
        **given,
    )
    return site


@pytest.fixture
def releases(released: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(released, tmp_path / "site"))


def launder(releases: Path, *, renew: bool) -> Path:
    """A DP release with its images exchanged for private ones."""
    release = Path(shutil.copytree(releases / "dp" / "release", releases / "laundered"))
    private = copies(releases / "private", releases / "copied", lambda image: image)
    images = sorted(private.rglob("*.png")), sorted(release.rglob("*.png"))
    for image, path in zip(*images, strict=True):
        shutil.copy(image, path)
    if renew:
        write_checksums(release)
    return release


def test_a_release_whose_images_were_exchanged_hands_on_no_guarantee(releases: Path) -> None:
    release = launder(releases, renew=False)
    match = r"no sound release.*`verify` finds \d+ faults"
    check_refused(releases, match, select, release, keep="50%")
    check_refused(releases, match, select, release / "train", keep="50%")
    dp = {"private": releases / "private", "keep": "50%", "epsilon": 1.0}
    check_refused(releases, match, select, release, **dp)
    match = "says itself how private images had a part in it"
    check_refused(releases, match, select, release, candidates_public=True, **dp)


def test_a_forged_list_of_checksums_does_not_hide_private_images(releases: Path) -> None:
    release = launder(releases, renew=True)
    assert verify(release).sound  # nothing of the folder itself is wrong
    check_refused(releases, r"24 by decoded values", select, release, keep="50%")


def test_what_a_killed_run_leaves_is_no_release(understudy: Commands, tmp_path: Path) -> None:
    source, pool = (embeddings(tmp_path / f"{seed}.npz", seed=seed) for seed in (0, 1))
    run = ["select", pool, "--private", source, "--keep", "50%", "--no-guarantee"]
    run += ["--set", "rounds=2", "--ledger", tmp_path / "ledger.db"]
    for number, moment in enumerate(
        (
            ("understudy.run.session:write_release", 1, "after"),
            ("understudy.release.documents:release_scatter", 1, "before"),
        )
    ):
        out = tmp_path / f"killed-{number}"
        assert understudy.run(*run, "--out", out, die=moment).code == -9
        files = list(out.rglob("*.safetensors"))
        assert files, tree(out)
        assert (out / "release").exists() == (number == 1)
        for place in {out, *files, *(path.parent for path in files)}:
            with pytest.raises(RunError, match=r"not finished"):
                select(place, keep=2, candidates_public=True, out=tmp_path / "out", **SILENT)


@pytest.mark.parametrize("form", ["archive", "parent", "owner", "below", "link"])
def test_a_release_does_not_lose_its_statement_by_another_name(releases: Path, form: str) -> None:
    release, name, match = (
        releases / "open" / "release",
        releases / "named",
        r"a part in it \(none\)",
    )
    if form == "archive":
        name, match = releases / "named.zip", "archive of a release"
        with zipfile.ZipFile(name, "w") as archive:
            for path in tree(release):
                archive.write(release / path, path)
    elif form == "parent":
        shutil.copytree(release, name / "train")
    elif form == "owner":
        (releases / "open" / "owner" / "draft").mkdir()
        shutil.copytree(releases / "private", releases / "open" / "owner" / "draft" / "train")
        name, match = releases / "open" / "owner" / "draft", "owner's part"
    elif form == "below":
        name = release / "train" / "cat"
    else:
        name.symlink_to(release / "train")
    dp = {"private": releases / "private", "keep": "50%", "epsilon": 1.0}
    check_refused(releases, match, select, name, candidates_public=True, **dp)


# Rows without a record


def test_rows_of_unproven_images_are_recorded_before_they_leave(site: Path) -> None:
    pool = site / "private"
    given = {"no_guarantee": True, "ledger": str(site / "ledger.db"), **SILENT}
    result = select(pool, keep="50%", out=site / "out", **given)
    assert recorded(site) == [(str(pool), 0, 1)]
    statement = read_json(result.release / "privacy.json")
    assert statement["guarantee"]["kind"] == "none"
    for name in ("README.md", "PRIVACY.md", "privacy.json"):
        text = (result.release / name).read_text(encoding="utf-8").lower()
        assert "no private data was read" not in text
        assert "no private data was used" not in text
    assert "count as private" in statement["data"]["how"]
    # A release of theirs is no public pool afterwards, whatever its owner says.
    dp = {"private": site / "others", "keep": "50%", "epsilon": 1.0, "candidates_public": True}
    shutil.move(site / "out", site / "first")
    check_refused(site, "24 by stored bytes", select, pool, settings={"steps": 20}, **dp)


def test_an_unproven_reference_is_recorded(releases: Path) -> None:
    before = recorded(releases)
    reference = photographs(releases / "reference", seed=5)
    select(
        releases / "dp",
        reference=reference,
        keep="50%",
        no_guarantee=True,
        out=releases / "out",
        ledger=str(releases / "ledger.db"),
        **SILENT,
    )
    assert recorded(releases) == [*before, (str(reference), 0, 1)]
    text = (releases / "out" / "release" / "README.md").read_text(encoding="utf-8")
    assert "no private data was read" not in text


def test_a_selection_of_a_sound_release_is_recorded_nowhere(releases: Path) -> None:
    before = recorded(releases)
    ledger = str(releases / "ledger.db")
    result = select(releases / "dp", keep=10, out=releases / "out", ledger=ledger, **SILENT)
    assert recorded(releases) == before
    assert result.receipt.epsilon == pytest.approx(50.0)


# Public inputs that are not


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Private embeddings, a DP release of them, and one without a guarantee."""
    folder = tmp_path_factory.mktemp("described")
    ledger: dict[str, Any] = {"ledger": str(folder / "ledger.db"), **SILENT}
    source = embeddings(folder / "private.npz")
    synthesize(source, out=folder / "dp", epsilon=1.0, settings=QUICK, **ledger)
    select(
        embeddings(folder / "pool.npz", seed=3),
        private=source,
        keep="50%",
        no_guarantee=True,
        out=folder / "open",
        **ledger,
    )
    return folder


@pytest.fixture
def world(described: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(described, tmp_path / "world"))


ROLES = {
    "base": {"method": "alignment", "settings": {"clusters": 2}},
    "public": {"settings": {"clusters": 1, "components": 3}},
}


@pytest.mark.parametrize("role", ROLES)
def test_a_release_as_a_public_set_brings_its_guarantee_along(world: Path, role: str) -> None:
    place = world / "dp" / "release" / "embeddings.safetensors"
    options: dict[str, Any] = {**ROLES[role], role: str(place), "ledger": str(world / "ledger.db")}
    result = synthesize(world / "private.npz", out=world / "out", epsilon=1.0, **options, **SILENT)
    with Ledger(str(world / "ledger.db")) as ledger:
        (spent,) = [
            ledger.spent(one.id).epsilon
            for one in ledger.datasets()
            if one.name.endswith("private.npz")
        ]
    assert spent > 1.4
    assert result.receipt.epsilon == pytest.approx(spent, rel=1e-3)
    statement = read_json(result.release / "privacy.json")
    assert verify(result.release).sound
    assert statement["public_data"] == []
    assert {stage["origin"] for stage in statement["stages"]} == {"", role}


@pytest.mark.parametrize(
    ("role", "place"), [("base", "open"), ("public", "open/release/embeddings.safetensors")]
)
def test_a_release_without_a_guarantee_is_no_public_set(world: Path, role: str, place: str) -> None:
    options = {"epsilon": 1.0, **ROLES[role], role: str(world / place)}
    check_refused(world, "can never carry a claim", synthesize, world / "private.npz", **options)


@pytest.mark.parametrize("role", ROLES)
def test_what_nothing_is_said_of_is_stated_as_declared(world: Path, role: str) -> None:
    other = embeddings(world / "other.npz", seed=9)
    options: dict[str, Any] = {**ROLES[role], role: str(other), "ledger": str(world / "ledger.db")}
    result = synthesize(world / "private.npz", out=world / "out", epsilon=1.0, **options, **SILENT)
    premises = read_json(result.release / "privacy.json")["premises"]
    words = f"no private image had a part in the {role} images"
    assert {"name": words, "value": True, "origin": "declared"} in premises
    assert result.receipt.epsilon == pytest.approx(1.0)


def test_a_file_fitted_to_images_brings_the_statement_beside_it(site: Path, released: Path) -> None:
    fitted = site / "fitted"
    shutil.copytree(released / "open" / "release", fitted)
    photographs(site / "large", side=96, seed=4)
    fit_niqe_model(str(site / "large"), fitted / "niqe.npz", SMALLEST_BLOCK, progress="none")
    write_checksums(fitted)
    codec = dict.fromkeys(("encoder", "decoder"), "embedded:dct")
    options = {"epsilon": 1.0, "quality": f"niqe:{fitted / 'niqe.npz'}", **codec}
    options["quality_threshold"] = 100.0
    source = photographs(site / "larger", side=64, seed=6)
    check_refused(site, r"\(niqe\).*can never carry a claim", synthesize, source, **options)


# Recognised by what is decoded


@pytest.mark.parametrize("form", ["with a byte", "array", "tiff", "of another order and size"])
def test_a_dataset_is_recognised_by_what_is_decoded(site: Path, form: str) -> None:
    with Ledger(str(site / "ledger.db")) as ledger:
        first = ledger.register(open_source(site / "private"))
    other, options = site / "other", {}
    source = open_source(site / "private")
    images = np.stack(list(originals_of(source)))
    labels = np.concatenate([batch.labels for batch in source.batches(64)])
    if form == "with a byte":
        with_a_byte(site / "private", other)
    elif form == "array":
        other = site / "other.npz"
        np.savez(other, images=images, labels=labels)
    elif form == "tiff":
        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            (other / f"class-{label}").mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(other / f"class-{label}" / f"{number}.tiff")
    else:  # a size that is asked for changes what is read, and not what is stored
        other, options = site / "other.npz", {"size": 20, "channels": 1}
        np.savez(other, images=images[::-1], labels=labels[::-1])
    with Ledger(str(site / "ledger.db")) as ledger:
        assert ledger.register(open_source(other, **options)).id == first.id
        assert len(ledger.datasets()) == 1


# Real images


@pytest.mark.slow
def test_five_thousand_unrelated_images_of_the_same_kind_are_not_refused(
    fashion_mnist: Path,
) -> None:
    train = open_source(fashion_mnist, split="train")
    test = open_source(fashion_mnist, split="test")

    def looks(source: Any) -> Looks:
        return Looks.of(image for image, _ in zip(originals_of(source), range(5000), strict=False))

    private, unrelated = looks(train), looks(test)
    assert not same_looks(unrelated, private).any()
    assert same_looks(private, private).mean() > 0.95

"""What a device and a server send each other: one form in bytes, and nothing else is taken."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from understudy.core.errors import WireError
from understudy.methods.sanitize import ed25519, signed_results, wire
from understudy.methods.sanitize.pairing_code import PairingCode
from understudy.methods.sanitize.wire_items import (
    FILL,
    HEADER_BYTES,
    ITEM_BYTES,
    ITEMS,
    POSE_SLOTS,
    SIDES,
    SKELETONS,
    BackgroundItem,
    BoxItem,
    EdgesItem,
    Item,
    PoseItem,
    TargetItem,
    decode_item,
    encode_item,
    item_digest,
)

CLASSES = ("eating", "sitting", "sleeping", "playing")


def random_items(rng: np.random.Generator, side: int, count: int) -> dict[str, list[Item]]:
    """``count`` items of every kind."""
    images = rng.integers(0, 256, (count, side, side, 3), np.uint8)
    edges = rng.random((count, side, side)) < 0.1
    points = np.concatenate([rng.uniform(0, side, (count, 11, 2)), np.ones((count, 11, 1))], 2)
    box = np.array([0.1, 0.3, 0.6, 0.9]) * side
    return {
        "box": [BoxItem.of(1, side, box) for _ in range(count)],
        "pose": [PoseItem.of(1, side, pose) for pose in points],
        "edges": [EdgesItem.of(1, map_) for map_ in edges],
        "target": [
            TargetItem.of(1, image, mask) for image, mask in zip(images, edges, strict=True)
        ],
        "background": [BackgroundItem.of(image) for image in images],
    }


def request(level: int = 1, background: int = 0, references: int = 8) -> wire.JobRequest:
    target = wire.PartRequest(noun="dog", level=level, feature="edges" if level == 1 else None)
    behind = wire.PartRequest(
        noun="living room", level=background, feature="edges" if background == 1 else None
    )
    return wire.JobRequest(
        target_object=(target,),
        background=behind,
        training_object="classifier",
        label_classes=CLASSES,
        references=references if level or background else 0,
    )


@pytest.mark.parametrize("side", SIDES)
def test_every_item_comes_back_from_its_bytes(side: int) -> None:
    for name, items in random_items(np.random.default_rng(side), side, 2).items():
        for item in items:
            data = encode_item(item)
            assert decode_item(data) == item
            assert len(data) == HEADER_BYTES + ITEMS[item.code].length(side) <= ITEM_BYTES
            assert item.name == name


def test_arrays_come_back_as_they_were() -> None:
    rng = np.random.default_rng(0)
    image, mask = rng.integers(0, 256, (64, 64, 3), np.uint8), rng.random((64, 64)) < 0.5
    target = TargetItem.of(2, image, mask)
    assert (target.mask() == mask).all()
    assert (target.image()[mask] == image[mask]).all()
    assert (target.image()[~mask] == FILL).all()
    assert (EdgesItem.of(0, mask).edges() == mask).all()
    assert (BackgroundItem.of(image).image() == image).all()
    assert BoxItem.of(1, 64, np.array([5, 9, 20, 33])).box().tolist() == [4, 8, 20, 36]
    points = PoseItem.of(1, 64, np.array([[10.0, 20.0, 0.7], [3.0, 4.0, 0.0]])).points()
    assert np.abs(points[0] - [10, 20, 1]).max() < 0.13
    assert not points[1:].any()


def test_a_target_carries_nothing_of_what_is_outside_its_mask() -> None:
    rng = np.random.default_rng(1)
    image, mask = rng.integers(0, 256, (32, 32, 3), np.uint8), rng.random((32, 32)) < 0.5
    item = TargetItem.of(1, image, mask)
    payload = bytearray(item.payload)
    payload[3 * int(np.flatnonzero(~mask.ravel())[0])] = 126
    with pytest.raises(ValidationError, match="outside of the mask"):
        TargetItem(part=1, side=32, salt=item.salt, payload=bytes(payload))


@pytest.mark.parametrize(
    "box", [[0, 0, 0, 4], [3, 3, 3, 9], [-1, 0, 5, 5], [0, 0, 65, 5], [0, 0, float("nan"), 5]]
)
def test_a_box_is_within_its_image(box: list[float]) -> None:
    with pytest.raises(WireError):
        BoxItem.of(1, 64, np.array(box))


@pytest.mark.parametrize(
    "points",
    [np.full((1, 3), 70.0), np.full((1, 3), np.nan), np.ones((POSE_SLOTS + 1, 3)), np.ones(3)],
)
def test_a_pose_is_within_its_image(points: NDArray[np.float64]) -> None:
    points = points.copy()
    points[..., 2] = 1
    with pytest.raises(WireError):
        PoseItem.of(1, 64, points)


ENCODED = [
    encode_item(item)
    for items in random_items(np.random.default_rng(0), 32, 1).values()
    for item in items
]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_changed_item_is_refused_or_another_valid_item(data: st.DataObject) -> None:
    """Whatever the decoder takes, it takes in exactly one form."""
    changed = bytearray(data.draw(st.sampled_from(ENCODED)))
    for at, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(changed) - 1), st.integers(0, 255)), max_size=4)
    ):
        changed[at] = value
    cut = data.draw(st.integers(-3, 3))
    sent = bytes(changed[:cut] if cut < 0 else changed + bytes(cut))
    try:
        decoded = decode_item(sent)
    except WireError:
        return
    assert encode_item(decoded) == sent


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=100).map(lambda rest: b"USPN\x01" + rest))
def test_other_bytes_are_no_item(sent: bytes) -> None:
    with pytest.raises(WireError):
        decode_item(sent)


def test_eight_photos_of_edges_fit_in_8_kib() -> None:
    """Acceptance: (L1, L0) of 8 photos, messages and items together."""
    items = {1: random_items(np.random.default_rng(0), 64, 8)["edges"]}
    manifest, encoded = wire.manifest_of(items)
    submission = wire.JobSubmission(request=request(), manifest=manifest)
    total = len(wire.encode_message(submission)) + sum(map(len, encoded.values()))
    assert len(encoded) == 8
    assert total <= 8 * 1024
    assert submission.item_bytes == sum(map(len, encoded.values()))


def test_size_and_count_say_nothing_of_the_photos() -> None:
    """Acceptance: empty photos and noise give messages and items of the same number of bytes."""
    noise = random_items(np.random.default_rng(3), 64, 8)
    grey, mask = np.zeros((64, 64, 3), np.uint8), np.zeros((64, 64), bool)
    empty: dict[str, list[Item]] = {
        "box": [BoxItem.of(1, 64, np.array([0, 0, 1, 1])) for _ in range(8)],
        "pose": [PoseItem.of(1, 64, np.zeros((11, 3))) for _ in range(8)],
        "edges": [EdgesItem.of(1, mask) for _ in range(8)],
        "target": [TargetItem.of(1, grey, mask) for _ in range(8)],
        "background": [BackgroundItem.of(grey) for _ in range(8)],
    }
    for name, items in empty.items():
        part = 0 if name == "background" else 1
        (one, sent), (other, also) = (
            wire.manifest_of({part: each}) for each in (items, noise[name])
        )
        assert [len(data) for data in sent.values()] == [len(data) for data in also.values()]
        assert len(wire.encode_message(one)) == len(wire.encode_message(other))


def test_equal_arrays_have_different_digests() -> None:
    items = [BoxItem.of(1, 64, np.array([0, 0, 32, 32])) for _ in range(64)]
    assert len({item_digest(encode_item(item)) for item in items}) == 64


def test_a_manifest_is_in_the_order_of_digests_and_of_nothing_else() -> None:
    rng = np.random.default_rng(0)
    items = {
        part: [EdgesItem.of(part, rng.random((32, 32)) < 0.1) for _ in range(9)] for part in (0, 1)
    }
    manifest, encoded = wire.manifest_of(items)
    assert list(encoded) == list(manifest.digests)
    for part in manifest.parts:
        assert list(part.digests) == sorted(part.digests)
    with pytest.raises(ValidationError, match="ascending"):
        wire.PartItems(part=1, digests=tuple(reversed(manifest.parts[1].digests)))


def submission(level: int = 1, references: int = 2) -> tuple[wire.JobSubmission, dict[str, bytes]]:
    kind = {1: "edges", 2: "target"}[level]
    items = {1: random_items(np.random.default_rng(level), 64, references)[kind]}
    manifest, encoded = wire.manifest_of(items)
    wanted = request(level, references=references)
    return wire.JobSubmission(request=wanted, manifest=manifest), encoded


def test_an_item_is_accepted_under_its_own_digest_alone() -> None:
    job, encoded = submission()
    (first, data), (second, other) = encoded.items()
    assert encode_item(wire.accept_item(job, first, data)) == data
    for digest, sent in ((first, other), ("0" * 64, data), (item_digest(b"x"), b"x")):
        with pytest.raises(WireError, match="does not list"):
            wire.accept_item(job, digest, sent)
    assert wire.accept_item(job, second, other).part == 1


@pytest.mark.parametrize("kind", ["box", "pose", "target"])
def test_an_item_of_another_kind_is_refused(kind: str) -> None:
    items = random_items(np.random.default_rng(5), 64, 2)[kind]
    manifest, encoded = wire.manifest_of({1: items})
    job = wire.JobSubmission(request=request(references=2), manifest=manifest)
    digest, data = next(iter(encoded.items()))
    with pytest.raises(WireError, match="another part, kind or size"):
        wire.accept_item(job, digest, data)


def test_a_pose_has_the_keypoints_of_its_skeleton() -> None:
    points = np.ones((12, 3))
    manifest, encoded = wire.manifest_of({1: [PoseItem.of(1, 64, points)]})
    target = wire.PartRequest(noun="dog", level=1, feature="pose", skeleton="dog")
    wanted = request(references=1).model_copy(update={"target_object": (target,)})
    job = wire.JobSubmission(request=wanted, manifest=manifest)
    digest, data = next(iter(encoded.items()))
    assert len(SKELETONS["dog"]) == 11
    with pytest.raises(WireError, match="more keypoints"):
        wire.accept_item(job, digest, data)


def test_a_message_has_one_form() -> None:
    job, _ = submission()
    data = wire.encode_message(job)
    assert wire.decode_message(wire.JobSubmission, data) == job
    values = json.loads(data)
    spaced = json.dumps(values, sort_keys=True).encode()
    reordered = json.dumps(dict(reversed(values.items())), separators=(",", ":")).encode()
    twice = data.replace(b'{"manifest":', b'{"manifest":{},"manifest":', 1)
    for sent in (spaced, reordered, twice, data + b" ", data[:-1], b"", b"\xff", b"[" * 5000):
        with pytest.raises(WireError):
            wire.decode_message(wire.JobSubmission, sent)


@pytest.mark.parametrize(
    "change",
    [
        {"secret": 1},
        {"label_classes": ("eating",)},
        {"label_classes": ("eating", "eating")},
        {"label_classes": tuple(f"class {letter}" for letter in "abcdefghijklmnopq")},
        {"label_classes": ("eating", "Sitting")},
        {"label_classes": ("eating", "x" * 33)},
        {"label_classes": ("eating", "my dog's")},
        {"references": 0},
        {"references": 65},
        {"side": 48},
        {"images_per_class": 100_000},
        {"training_object": "detector"},
        {"version": 2},
        {"mixture": ((1,),) * 2},
        {"mixture": ((2,),)},
        {"mixture": ((1, 0),)},
        {"mixture": ((1,),), "equal_shares": 1},
    ],
)
def test_a_request_outside_the_schema_is_refused(change: dict[str, object]) -> None:
    values = json.loads(wire.encode_message(request())) | json.loads(json.dumps(change))
    sent = json.dumps(values, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(WireError) as caught:
        wire.decode_message(wire.JobRequest, sent)
    assert "dog" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "Value error" not in str(caught.value)  # which is the validator's word, not ours


def test_a_mixture_is_of_lower_levels() -> None:
    asked = wire.JobRequest(**{**dict(request()), "mixture": ((1,),), "equal_shares": True})
    assert wire.decode_message(wire.JobRequest, wire.encode_message(asked)) == asked
    whole, words = asked.preferences()
    assert whole == request()
    assert words.target_object[0] == wire.PartRequest(noun=asked.target_object[0].noun)
    assert words.background == asked.background


def test_levels_and_features_agree() -> None:
    for values in (
        {"level": 1},
        {"level": 0, "feature": "edges"},
        {"level": 2, "feature": "box"},
        {"level": 1, "feature": "pose"},
        {"level": 1, "feature": "edges", "skeleton": "dog"},
    ):
        with pytest.raises(ValidationError):
            wire.PartRequest(noun="dog", **values)  # type: ignore[arg-type]


def test_a_manifest_has_as_many_items_of_every_part_as_the_request_states() -> None:
    job, _ = submission()
    with pytest.raises(ValidationError, match="as many items"):
        wire.JobSubmission(request=request(references=3), manifest=job.manifest)
    with pytest.raises(ValidationError, match="exactly the parts"):
        wire.JobSubmission(request=request(0), manifest=job.manifest)


@pytest.fixture(scope="module")
def private() -> bytes:
    return ed25519.new_signing_key()


def model_result(private: bytes, model: bytes) -> wire.ModelResult:
    return signed_results.sign(
        wire.ModelResult,
        private,
        job="0" * 32,
        submission="1" * 64,
        model=signed_results.model_digest(model),
        model_bytes=len(model),
        kind="classifier",
        label_classes=CLASSES,
        side=64,
        validation=0.5,
        pipeline="text alone",
    )


def test_a_model_comes_back_and_another_one_does_not(private: bytes) -> None:
    model, key = b"model bytes", ed25519.public_key_of(private)
    result = model_result(private, model)
    body = signed_results.encode_model(result, model)
    assert signed_results.decode_model(body, key) == (result, model)
    for sent in (body[:-1], body + b"x", body[:-1] + b"x", b"", b"USPM" + body[3:]):
        with pytest.raises(WireError):
            signed_results.decode_model(sent, key)


def test_a_signature_binds_every_field(private: bytes) -> None:
    key, result = ed25519.public_key_of(private), model_result(private, b"model")
    receipt = signed_results.sign(
        wire.DeletionReceipt,
        private,
        job="0" * 32,
        submission="1" * 64,
        item_bytes=4352,
        delivered=True,
        reason="requested",
        deleted_at=1_800_000_000,
    )
    changes: dict[str, object] = {"job": "1" * 32, "submission": "2" * 64, "model": "3" * 64}
    changes |= {"validation": 0.6, "label_classes": CLASSES[::-1], "signature": "4" * 128}
    for message, other in ((result, changes), (receipt, {"item_bytes": 7, "deleted_at": 0})):
        signed_results.check_signature(message, key)
        for name, value in other.items():
            with pytest.raises(WireError, match="was changed"):
                signed_results.check_signature(message.model_copy(update={name: value}), key)
    other_key = ed25519.new_signing_key()
    with pytest.raises(WireError, match="another server"):
        signed_results.check_signature(model_result(other_key, b"model"), key)


def test_a_pairing_code_is_read_whole_or_not_at_all() -> None:
    for certificate in (None, "c" * 64):
        code = PairingCode(
            url="https://[::1]:8443", secret="a" * 32, public_key="b" * 64, certificate=certificate
        )
        assert PairingCode.read(f" {code.text()}\n") == code
        for text in (code.text()[:-2], code.text() + ".", "", "https://host", "#" + code.secret):
            if text != code.text()[:-2] or certificate:
                with pytest.raises(WireError, match="pairing code"):
                    PairingCode.read(text)


@pytest.mark.parametrize(
    "url",
    ["https://host:65536", "https://host:x", "https://host:0", "https://a..b", "https://[::1",
     "http://[::1", "https://:443", f"https://{'a' * 64}.org"],
)  # fmt: skip
def test_a_pairing_code_of_no_address_is_none(url: str) -> None:
    with pytest.raises(WireError, match="not a whole pairing code"):
        PairingCode.read(f"{url}#{'a' * 32}.{'b' * 64}.{'c' * 64}")


@pytest.mark.parametrize(
    ("state", "finished", "words"),
    [
        ("open", 0, "open, 0 of 2 stages"),
        ("running", 1, "running train, 1 of 2 stages"),
        ("running", 9, "running, 9 of 2 stages"),  # what a server says need not make sense
        ("done", 2, "done, 2 of 2 stages"),
    ],
)
def test_a_job_says_which_stage_it_is_at(state: wire.StateName, finished: int, words: str) -> None:
    """For a quarter of an hour it said that none was finished, as if it stood still."""
    job = wire.JobState(job="0" * 32, state=state, stages=("compose", "train"), finished=finished)
    assert job.words == words

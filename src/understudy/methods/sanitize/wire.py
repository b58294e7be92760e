"""The messages that pass between a device and a server, each with exactly one form in bytes.

A message is a frozen pydantic model of bounded length. `encode_message` writes it as JSON with
sorted keys and no blanks, `decode_message` takes nothing else. What is sent of the photos are the
items of `wire_items`: each part above L0 has as many of them as the request states, and the
manifest lists their digests sorted, so that no order says which items came of one photo.

docs/wire.md is printed from both modules.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Annotated, ClassVar, Literal, Self, TypeVar

from pydantic import (
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from understudy.core.errors import WireError
from understudy.methods.sanitize.wire_items import (
    HEADER_BYTES,
    OBJECTS,
    REFERENCES,
    SKELETONS,
    BackgroundItem,
    BoxItem,
    Digest,
    EdgesItem,
    Item,
    Message,
    PartNumber,
    PoseItem,
    Side,
    TargetItem,
    decode_item,
    encode_item,
    first_problem,
    hex_text,
    item_digest,
)

MESSAGE_BYTES = 48 * 1024
"""Bytes of a message at most."""
MODEL_BYTES = 16 * 1024 * 1024
"""Bytes of a model at most."""

Noun = Annotated[
    str, StringConstraints(pattern=r"^[a-z](?:[a-z -]{0,30}[a-z])?$", min_length=1, max_length=32)
]
"""1 to 32 letters a to z, blanks and hyphens; it begins and ends with a letter."""
ModelName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9 .,:;+/?=&()_-]{1,200}$")]
JobId = Annotated[str, hex_text(32)]
PublicKey = Annotated[str, hex_text(64)]
"""Of Ed25519, in hexadecimal."""
Signature = Annotated[str, hex_text(128)]
Level = Literal[0, 1, 2]
Feature = Literal["edges", "pose", "box"]
ModelKind = Literal["classifier", "detector"]
Count = Annotated[int, Field(ge=0, le=2**40)]

PartNumbers = Annotated[tuple[PartNumber, ...], Field(min_length=1, max_length=OBJECTS + 1)]

M = TypeVar("M", bound=Message)


class PartRequest(Message):
    """An object or the background: what it is called, and how much of it is shared."""

    noun: Noun
    """Its text, which is all that is sent at level L0."""
    level: Level = 0
    """0: text alone; 1: a feature of every reference; 2: the segment itself."""
    feature: Feature | None = None
    """What is sent at level L1; null at the others."""
    skeleton: Literal["person", "dog"] | None = None
    """The keypoints of a pose; null for everything else."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.level == 1) != (self.feature is not None):
            raise ValueError("a feature is named at level 1, and at no other")
        if (self.feature == "pose") != (self.skeleton is not None):
            raise ValueError("a skeleton is named for a pose, and for nothing else")
        return self


class JobRequest(Message):
    """What model is wanted: the four keys of the paper's Table 2, and a level for each part."""

    version: Literal[1] = 1
    target_object: Annotated[tuple[PartRequest, ...], Field(min_length=1, max_length=OBJECTS)]
    """The objects; the first is what a classifier's classes are about."""
    background: PartRequest
    training_object: ModelKind
    """What is trained: the paper's training objective."""
    label_classes: Annotated[tuple[Noun, ...], Field(min_length=1, max_length=16)]
    """2 to 16 classes of a classifier; the nouns of a detector's objects."""
    side: Side = 64
    """Pixels a side of every item, of the synthetic images and of the model's input."""
    references: Annotated[int, Field(ge=0, le=REFERENCES)] = 0
    """Items of each part above L0; 0 where there is none."""
    images_per_class: Annotated[int, Field(ge=4, le=1000)] = 400
    """Synthetic images that the model is trained on, for each class."""
    mixture: Annotated[tuple[PartNumbers, ...], Field(max_length=3)] = ()
    """Further preferences whose images are added: of each, the parts above level 0 that are words
    alone in them."""
    equal_shares: bool = False
    """Of a mixture: an equal share of every preference, no more images in all; else all of each."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        nouns = [part.noun for part in self.target_object]
        if len(set(nouns)) < len(nouns):
            raise ValueError("the nouns of the objects must differ")
        if len(set(self.label_classes)) < len(self.label_classes):
            raise ValueError("the label classes must differ")
        if self.training_object == "classifier" and len(self.label_classes) < 2:
            raise ValueError("a classifier has 2 to 16 label classes")
        if self.training_object == "detector" and not set(self.label_classes) <= set(nouns):
            raise ValueError("the label classes of a detector are nouns of its objects")
        if self.background.feature not in (None, "edges"):
            raise ValueError("the feature of a background is its edges")
        if (self.references > 0) != bool(self.disclosed):
            raise ValueError("references are counted where a part is above level 0, and only there")
        self._check_mixture()
        return self

    def _check_mixture(self) -> None:
        if len(set(self.mixture)) < len(self.mixture) or self.equal_shares > bool(self.mixture):
            raise ValueError(
                "the preferences of a mixture differ, and only of one there are shares"
            )
        for parts in self.mixture:
            if list(parts) != sorted(set(parts)) or not set(parts) <= set(self.disclosed):
                raise ValueError("a mixture names parts above level 0, in ascending order")

    def preferences(self) -> tuple[Self, ...]:
        """This preference without its mixture, then those of the mixture: lower levels of it."""
        alone = self.model_copy(update={"mixture": (), "equal_shares": False})
        words = {"level": 0, "feature": None, "skeleton": None}
        requests = [alone]
        for numbers in self.mixture:
            parts = [
                part.model_copy(update=words) if number in numbers else part
                for number, part in enumerate(self.parts)
            ]
            changes = {"background": parts[0], "target_object": tuple(parts[1:])}
            requests.append(alone.model_copy(update=changes))
        return tuple(requests)

    @property
    def parts(self) -> tuple[PartRequest, ...]:
        """The background, then the objects: a part's number is its place here."""
        return (self.background, *self.target_object)

    @property
    def disclosed(self) -> tuple[int, ...]:
        """Numbers of the parts above L0, of which items are sent."""
        return tuple(number for number, part in enumerate(self.parts) if part.level > 0)

    def item_of(self, part: int) -> type[Item] | None:
        """The kind of the items of a part; None where nothing of it is sent."""
        if part >= len(self.parts) or self.parts[part].level == 0:
            return None
        features: dict[str, type[Item]] = {"edges": EdgesItem, "pose": PoseItem, "box": BoxItem}
        whole = TargetItem if part else BackgroundItem
        return features.get(self.parts[part].feature or "", whole)


class PartItems(Message):
    """The digests of one part's items, in ascending order."""

    part: PartNumber
    digests: Annotated[tuple[Digest, ...], Field(min_length=1, max_length=REFERENCES)]

    @model_validator(mode="after")
    def _sorted(self) -> Self:
        if list(self.digests) != sorted(set(self.digests)):
            raise ValueError("the digests of a part are distinct and in ascending order")
        return self


class ItemManifest(Message):
    """All items of a job. Its order is that of random digests, and says nothing of the photos."""

    nonce: Annotated[str, hex_text(32)]
    """Random: sending the same job again after a crash makes no second one."""
    parts: Annotated[tuple[PartItems, ...], Field(max_length=OBJECTS + 1)] = ()
    """In ascending order of their numbers."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        numbers = [part.part for part in self.parts]
        if numbers != sorted(set(numbers)):
            raise ValueError("the parts are distinct and in ascending order")
        if len(set(self.digests)) < sum(len(part.digests) for part in self.parts):
            raise ValueError("no two parts share an item")
        return self

    @property
    def digests(self) -> tuple[str, ...]:
        """Those of all items, in the order in which they are to be sent."""
        return tuple(digest for part in self.parts for digest in part.digests)

    def of(self, part: int) -> tuple[str, ...]:
        """Those of a part; none where nothing of it is sent."""
        return next((one.digests for one in self.parts if one.part == part), ())

    def part_of(self, digest: str) -> int | None:
        """The number of the part that an item belongs to; None for an item of another job."""
        return next((one.part for one in self.parts if digest in one.digests), None)


class JobSubmission(Message):
    """The request and the manifest: the body of ``POST /v1/jobs``."""

    request: JobRequest
    manifest: ItemManifest

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if tuple(part.part for part in self.manifest.parts) != self.request.disclosed:
            raise ValueError("the manifest lists exactly the parts above level 0")
        if any(len(part.digests) != self.request.references for part in self.manifest.parts):
            raise ValueError("every part has as many items as the request states references")
        return self

    @property
    def item_bytes(self) -> int:
        """Bytes of all items, which the request alone determines."""
        kinds = [self.request.item_of(part) for part in self.request.disclosed]
        sizes = [encoded_bytes(kind, self.request.side) for kind in kinds if kind is not None]
        return self.request.references * sum(sizes)


StateName = Literal["open", "queued", "running", "done", "failed", "deleted"]
FailureCode = Literal["pipeline", "crashed", "time"]
StageName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z-]{0,31}$")]


class JobState(Message):
    """How far a job is: the answer to ``POST``, ``PUT``, ``start`` and ``GET``."""

    job: JobId
    state: StateName
    missing: Annotated[tuple[Digest, ...], Field(max_length=REFERENCES * (OBJECTS + 1))] = ()
    """Items that have not arrived, while the job is open."""
    stages: Annotated[tuple[StageName, ...], Field(max_length=16)] = ()
    """The stages of the pipeline, in order."""
    finished: Annotated[int, Field(ge=0, le=16)] = 0
    """How many of them are finished."""
    failure: FailureCode | None = None
    expires_in: Count = 0
    """Seconds until everything of the job is deleted."""

    @property
    def words(self) -> str:
        """Such as ``running compose, 1 of 4 stages``."""
        if not self.stages:
            return self.state
        current = self.stages[self.finished :][:1] if self.state == "running" else ()
        return f"{' '.join((self.state, *current))}, {self.finished} of {len(self.stages)} stages"


class ModelLicence(Message):
    """A model that a pipeline works with."""

    name: ModelName
    licence: ModelName


Direction = Annotated[
    tuple[Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)], ...],
    Field(min_length=1, max_length=1024),
]


class ModelResult(Message):
    """What a job gave, signed; `signed_results.encode_model` adds the model itself."""

    purpose: ClassVar[str] = "model"

    job: JobId
    submission: Digest
    """Of the encoded `JobSubmission`: request, manifest and nonce."""
    model: Digest
    """BLAKE2b-256 of the model's bytes."""
    model_bytes: Annotated[int, Field(ge=1, le=MODEL_BYTES)]
    format: Literal["onnx"] = "onnx"
    kind: ModelKind
    label_classes: Annotated[tuple[Noun, ...], Field(min_length=1, max_length=16)]
    side: Side
    """The model's input is (n, 3, side, side) float32, RGB in [0, 255]."""
    validation: Annotated[float, Field(ge=0, le=1)]
    """Accuracy (classifier) or AP50 (detector) on synthetic images left out of the training."""
    pipeline: ModelName
    models: Annotated[tuple[ModelLicence, ...], Field(max_length=16)] = ()
    directions: Annotated[tuple[Direction, ...], Field(max_length=2)] = ()
    """Mean embeddings, each of unit length, of synthetic images by the mini studio: of their first
    object alone, and of their background alone. A device compares them with its photos (SIM)."""
    public_key: PublicKey
    signature: Signature


class DeletionReceipt(Message):
    """That everything of a job was deleted, signed."""

    purpose: ClassVar[str] = "receipt"

    job: JobId
    submission: Digest
    item_bytes: Count
    """Bytes of the items that the submission announced."""
    delivered: bool
    """Whether the model was sent at least once."""
    reason: Literal["requested", "expired"]
    deleted_at: Count
    """Seconds since 1970, UTC."""
    public_key: PublicKey
    signature: Signature


class About(Message):
    """What a server says of itself: the answer to ``GET /v1/about``."""

    version: ModelName
    wire: Literal[1] = 1
    public_key: PublicKey
    """Of the signatures of models and receipts."""
    pipeline: ModelName
    stages: Annotated[tuple[StageName, ...], Field(max_length=16)]
    models: Annotated[tuple[ModelLicence, ...], Field(max_length=16)]
    retention: Count
    """Seconds after which everything of a job is deleted."""
    open_jobs: Count
    """Jobs that a device may have at a time."""
    jobs_a_day: Count
    stored_bytes: Count
    """Bytes of items that a device may have stored."""


class PairingRequest(Message):
    """The body of ``POST /v1/pair``: the secret of a pairing code, which holds once."""

    secret: Annotated[str, hex_text(32)]


class PairingResult(Message):
    """A device's token, which is stated once and stored by the server under a key."""

    token: Annotated[str, hex_text(64)]
    public_key: PublicKey


RefusalCode = Literal[
    "unknown", "malformed", "too-large", "unsupported", "quota", "conflict", "incomplete", "server"
]


class Refusal(Message):
    """The body of every answer that is no success."""

    error: RefusalCode
    detail: Annotated[str, StringConstraints(max_length=300)] = ""
    """What is wrong and what to do; never what the device sent."""


MESSAGES: tuple[type[Message], ...] = (
    PartRequest,
    JobRequest,
    PartItems,
    ItemManifest,
    JobSubmission,
    JobState,
    ModelLicence,
    ModelResult,
    DeletionReceipt,
    About,
    PairingRequest,
    PairingResult,
    Refusal,
)
"""Every message, for the printed schema."""


def encode_message(message: Message) -> bytes:
    """The message's one form: JSON with sorted keys and no blanks, ASCII.

    Raises:
        WireError: It is longer than `MESSAGE_BYTES`.
    """
    data = canonical_json(message.model_dump(mode="json"))
    if len(data) > MESSAGE_BYTES:
        raise WireError(f"a message has at most {MESSAGE_BYTES} bytes, not {len(data)}")
    return data


def decode_message(kind: type[M], data: bytes) -> M:
    """The message of these bytes.

    Raises:
        WireError: They are too long, no such message, or not in its one form.
    """
    if len(data) > MESSAGE_BYTES:
        raise WireError(f"a message has at most {MESSAGE_BYTES} bytes, not {len(data)}")
    try:
        message = kind.model_validate_json(data)
    except ValidationError as error:
        raise WireError(f"this is no {kind.__name__}: {first_problem(error)}") from None
    if encode_message(message) != data:
        raise WireError(f"the {kind.__name__} is not in its one form: sorted keys, no blanks")
    return message


def canonical_json(values: object) -> bytes:
    """JSON values in their one form."""
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode("ascii")


def encoded_bytes(kind: type[Item], side: int) -> int:
    """Bytes of an encoded item of a kind."""
    return HEADER_BYTES + kind.length(side)


def manifest_of(items: Mapping[int, Sequence[Item]]) -> tuple[ItemManifest, dict[str, bytes]]:
    """A manifest with a fresh nonce, and the encoded items by their digests.

    Raises:
        WireError: An item belongs to another part.
    """
    encoded: dict[str, bytes] = {}
    parts = []
    for part in sorted(items):
        if any(item.part != part for item in items[part]):
            raise WireError(f"an item of another part stands under part {part}")
        data = {item_digest(one): one for one in map(encode_item, items[part])}
        parts.append(PartItems(part=part, digests=tuple(sorted(data))))
        encoded |= data
    manifest = ItemManifest(nonce=secrets.token_hex(16), parts=tuple(parts))
    return manifest, {digest: encoded[digest] for digest in manifest.digests}


def accept_item(submission: JobSubmission, digest: str, data: bytes) -> Item:
    """The item of these bytes, where it is one that the submission announced.

    Raises:
        WireError: It is no item, another one, or not of the kind and size that was requested.
    """
    part = submission.manifest.part_of(digest)
    if part is None or item_digest(data) != digest:
        raise WireError("the manifest of this job does not list these bytes under this digest")
    item = decode_item(data)
    kind = submission.request.item_of(part)
    if type(item) is not kind or item.part != part or item.side != submission.request.side:
        raise WireError("the item is of another part, kind or size than the request states")
    if isinstance(item, PoseItem):
        slots = len(SKELETONS[str(submission.request.parts[part].skeleton)])
        if item.points()[slots:].any():
            raise WireError("the pose has more keypoints than the skeleton of the request")
    return item


def submission_digest(submission: JobSubmission) -> str:
    """BLAKE2b of the encoded submission, 64 hexadecimal digits."""
    data = encode_message(submission)
    return blake2b(data, digest_size=32, person=b"understudy-job").hexdigest()

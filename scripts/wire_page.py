"""Prints docs/wire.md: every message and item that passes between a device and a server."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import TypeAdapter

from understudy.methods.sanitize import wire, wire_items
from understudy.methods.sanitize.wire_items import ITEMS, SIDES, SKELETONS, Message

HEAD = """# The wire

All that passes between a device and a server of the method `sanitize`, printed from
`understudy.methods.sanitize.wire` and `wire_items`. A proxy between the two sees these messages and
nothing else. [The server](server.md) says what happens to them.

- A message is JSON of ASCII characters with sorted keys and no blanks, at most {message} bytes:
  each has one form, and `decode_message` refuses every other one. Unknown keys are refused.
- An item is a header of {header} bytes and an array of fixed size. There are no image files, so
  that there is no EXIF, no file name, no decoder and no length that depends on a photo.
- A request states its levels and the number of its references. Every part above level L0 has
  exactly one item for each reference; all items of a part have the same number of bytes.
- The digests of a part's items are sent in ascending order, and a random salt is part of every
  item: neither order nor equality of digests says which items came of one photo, and a digest that
  is kept after its item was deleted says nothing of it.

## Requests

| request | body | answer |
| --- | --- | --- |
| `GET /v1/about` | | `About` |
| `POST /v1/pair` | `PairingRequest` | `PairingResult` |
| `POST /v1/jobs` | `JobSubmission` | `JobState` |
| `PUT /v1/jobs/JOB/items/DIGEST` | an item | `JobState` |
| `POST /v1/jobs/JOB/start` | | `JobState` |
| `GET /v1/jobs/JOB` | | `JobState` |
| `GET /v1/jobs/JOB/model` | | a result and a model |
| `DELETE /v1/jobs/JOB` | | `DeletionReceipt` |

Every request but the first two carries `Authorization: Bearer TOKEN`. Every one may be sent again:
the second time changes nothing. Every answer that is no success is a `Refusal`.

## Items

The header, big-endian: `USPN`, version (1 byte, {version}), kind (1), part (1), binary logarithm
of the side (1), salt ({salt}), bytes of the array (4), zero (4). Part 0 is the background, parts 1
to {objects} are the objects in the order of the request. The digest is BLAKE2b-256 of header and
array, personalised with `understudy-item`. Bytes are those of header and array at {sides} pixels a
side.

"""

MODEL = """
## Model

`USPM`, bytes of the result (4, big-endian), bytes of the model (4), the `ModelResult`, the model:
at most {model} bytes of ONNX. Signatures are Ed25519 over `understudy/model/v1` or
`understudy/receipt/v1`, a zero byte, and the message without its signature in its one form.

## Messages
"""


def wire_page() -> str:
    """The whole page."""
    text = HEAD.format(
        message=wire.MESSAGE_BYTES,
        header=wire_items.HEADER_BYTES,
        version=wire_items.WIRE_VERSION,
        salt=wire_items.SALT_BYTES,
        objects=wire_items.OBJECTS,
        sides=", ".join(map(str, SIDES)),
    )
    for code, kind in ITEMS.items():
        first, _, rest = (kind.__doc__ or "").partition("\n\n")
        said = " ".join(f"{first} {rest}".split())
        sizes = [wire.encoded_bytes(kind, side) for side in SIDES]
        sizes = sizes[:1] if len(set(sizes)) == 1 else sizes
        text += f"- `{kind.__name__}`, kind {code}. {said} Bytes: {', '.join(map(str, sizes))}.\n"
    text += "\nKeypoints of a pose, in the order of its slots:\n\n"
    for name, keypoints in SKELETONS.items():
        text += f"- `{name}`: {', '.join(keypoints)}\n"
    text += MODEL.format(model=wire.MODEL_BYTES)
    for message in wire.MESSAGES:
        text += _message(message)
    return text


def _message(message: type[Message]) -> str:
    said = " ".join((message.__doc__ or "").split()).replace("``", "`")
    text, plain = f"\n### {message.__name__}\n\n{said}\n\n", list[str]()
    for name, field in message.model_fields.items():
        annotation: Any = field.annotation
        for extra in reversed(field.metadata):
            annotation = Annotated[annotation, extra]
        value = _shape(TypeAdapter(annotation).json_schema())
        note = " ".join((field.description or "").split()).replace("``", "`")
        if note:
            text += f"- `{name}`: {value}. {note}\n"
        else:
            plain.append(f"`{name}`: {value}")
    return text + (f"- {'; '.join(plain)}.\n" if plain else "")


def _shape(schema: dict[str, Any]) -> str:
    """What a value may be, in words; messages by their names."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "title" in schema and "properties" in schema:
        return f"[{schema['title']}](#{schema['title'].lower()})"
    if "anyOf" in schema:
        return " or ".join(_shape(one) for one in schema["anyOf"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if schema["type"] == "array":
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        inner = dict(schema["items"])
        named = inner.get("$ref", "").rpartition("/")[2]
        return f"{least} to {most} of {f'[{named}](#{named.lower()})' if named else _shape(inner)}"
    if schema["type"] == "string":
        return _text(schema)
    if schema["type"] in ("integer", "number"):
        kind = "whole number" if schema["type"] == "integer" else "number"
        return f"{kind}, {schema['minimum']} to {schema['maximum']}"
    return str(schema["type"])


def _text(schema: dict[str, Any]) -> str:
    pattern = schema.get("pattern", "")
    if digits := re.fullmatch(r"\^\[0-9a-f\]\{(\d+)\}\$", pattern):
        return f"{digits.group(1)} hexadecimal digits"
    if pattern:
        return "text `" + pattern.replace("|", "\\|") + "`"
    return f"text of at most {schema['maxLength']} characters"

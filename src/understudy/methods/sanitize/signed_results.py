"""What a server signs: the model of a job, and the receipt of its deletion (Ed25519).

The signature is over every field of the message, so that it binds the model's digest to the job
and to the submission, which holds request, manifest and nonce. A device has the public key from its
pairing code.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Any, TypeVar

from pydantic import ValidationError

from understudy.core.errors import WireError
from understudy.methods.sanitize.ed25519 import public_key_of, signature_fits, signature_of
from understudy.methods.sanitize.wire import (
    MESSAGE_BYTES,
    MODEL_BYTES,
    DeletionReceipt,
    ModelResult,
    canonical_json,
    decode_message,
    encode_message,
)
from understudy.methods.sanitize.wire_items import first_problem

_MODEL_MAGIC = b"USPM"
_LENGTHS = struct.Struct(">4sII")  # magic, bytes of the result, bytes of the model
UNSIGNED = "0" * 128

Signed = TypeVar("Signed", ModelResult, DeletionReceipt)


def signed_bytes(message: ModelResult | DeletionReceipt) -> bytes:
    """What the signature of a message is over: all of its fields but the signature."""
    values = message.model_dump(mode="json", exclude={"signature"})
    return f"understudy/{message.purpose}/v1\0".encode() + canonical_json(values)


def sign(kind: type[Signed], private: bytes, /, **fields: Any) -> Signed:
    """The message with its public key and signature.

    ``private``: 32 bytes; ``fields``: all others than key and signature.

    Raises:
        WireError: The fields are not those of such a message.
    """
    content = {**fields, "public_key": public_key_of(private)}
    try:
        unsigned = kind(**content, signature=UNSIGNED)
    except ValidationError as error:
        raise WireError(f"no {kind.__name__} can be signed: {first_problem(error)}") from None
    return kind(**content, signature=signature_of(private, signed_bytes(unsigned)))


def check_signature(message: ModelResult | DeletionReceipt, public_key: str) -> None:
    """Refuse a message that the server of this key did not sign.

    Raises:
        WireError: The message names another key, or was changed after it was signed.
    """
    if message.public_key != public_key:
        raise WireError("another server's key signed this: pair the device with that server first")
    if not signature_fits(public_key, message.signature, signed_bytes(message)):
        raise WireError("the signature does not fit: what it signed was changed")


def model_digest(model: bytes) -> str:
    """BLAKE2b of a model's bytes, 64 hexadecimal digits."""
    return blake2b(model, digest_size=32, person=b"understudy-model").hexdigest()


def encode_model(result: ModelResult, model: bytes) -> bytes:
    """The result and the model in one body: the answer to ``GET model``."""
    head = encode_message(result)
    return _LENGTHS.pack(_MODEL_MAGIC, len(head), len(model)) + head + model


def decode_model(data: bytes, public_key: str) -> tuple[ModelResult, bytes]:
    """The result and the model, signed by this key; length and digest are those it states.

    Raises:
        WireError: The bytes are too many, or anything else than that.
    """
    if not _LENGTHS.size <= len(data) <= _LENGTHS.size + MESSAGE_BYTES + MODEL_BYTES:
        raise WireError("these bytes are too few or too many for a model")
    magic, head_bytes, model_bytes = _LENGTHS.unpack_from(data)
    start = _LENGTHS.size + head_bytes
    if magic != _MODEL_MAGIC or start + model_bytes != len(data):
        raise WireError("these bytes do not begin with the lengths of a result and a model")
    result = decode_message(ModelResult, data[_LENGTHS.size : start])
    check_signature(result, public_key)
    model = data[start:]
    if (result.model, result.model_bytes) != (model_digest(model), len(model)):
        raise WireError("the model is not the one that the result names: get it again")
    return result, model

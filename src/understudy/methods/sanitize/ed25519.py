"""Signatures by Ed25519: keys, fresh or of PEM files, signing and checking.

Needs the extra ``sign``; keys and signatures are 32 private bytes, or text in hexadecimal.
"""

from __future__ import annotations

from understudy.core.errors import packages_for

with packages_for("an Ed25519 signature", "sign"):
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.serialization import (
        load_pem_private_key,
        load_pem_public_key,
    )


def new_signing_key() -> bytes:
    """A fresh private key, 32 bytes."""
    return Ed25519PrivateKey.generate().private_bytes_raw()


def public_key_of(private: bytes) -> str:
    """The public key of a private one, in hexadecimal."""
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw().hex()


def private_key_of_pem(pem: bytes) -> bytes:
    """A private key, 32 bytes, from a PEM file without a password.

    Raises:
        ValueError: It holds another key, or none.
    """
    try:
        key = load_pem_private_key(pem, password=None)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(str(error)) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(type(key).__name__)
    return key.private_bytes_raw()


def public_key_of_pem(pem: bytes) -> str:
    """A public key, in hexadecimal, from a PEM file.

    Raises:
        ValueError: It holds another key, or none.
    """
    try:
        key = load_pem_public_key(pem)
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from error
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError(type(key).__name__)
    return key.public_bytes_raw().hex()


def signature_of(private: bytes, content: bytes) -> str:
    """The signature of some bytes, in hexadecimal."""
    return Ed25519PrivateKey.from_private_bytes(private).sign(content).hex()


def signature_fits(public_key: str, signature: str, content: bytes) -> bool:
    """Whether the private key of this public one signed these bytes; both in hexadecimal."""
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(signature), content)
    except (InvalidSignature, ValueError):
        return False
    return True

"""Signing key of the crawler: an Ed25519 key in a file of its own (CRAWLER_KEY_FILE).

The file is PEM (PKCS #8) and readable only by its owner. Nothing but this module reads it, and no
text that this module makes contains any part of the private key.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from scrapy.settings import BaseSettings

from webcrawl.errors import FatalError, read_file
from webcrawl.wording import COMMAND

# Permissions of the group and of others.
_OTHERS = 0o077


class SigningKey:
    """Key that signs requests. *id* is its thumbprint (RFC 7638; RFC 8037, appendix A.3).

    *jwk* is the public key as a JSON Web Key.
    """

    def __init__(self, private: Ed25519PrivateKey) -> None:
        x = _base64url(private.public_key().public_bytes_raw())
        # The thumbprint is defined for exactly these members, in this order and without spaces.
        canonical = f'{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}'
        self.id = _base64url(hashlib.sha256(canonical.encode()).digest())
        self.jwk = {"kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": x, "use": "sig"}
        #: Returns the signature of some bytes.
        self.sign = private.sign


def key_of(settings: BaseSettings) -> SigningKey | None:
    """Return the key in CRAWLER_KEY_FILE, or None if it is not set. Raises what ``read_key`` does.

    Raises FatalError if the file is in JOBDIR, which is copied to stores and attached to reports.
    """
    name = settings.get("CRAWLER_KEY_FILE")
    jobdir = settings.get("JOBDIR")
    if not name:
        return None
    path = Path(name)
    if jobdir and path.resolve().is_relative_to(Path(jobdir).resolve()):
        raise FatalError(f"CRAWLER_KEY_FILE {path} must not be in JOBDIR: move it elsewhere.")
    return read_key(path)


def read_key(path: Path) -> SigningKey:
    """Return the key in the file *path*.

    Raises FatalError if it cannot be read, is not an Ed25519 key, or if others may read it.
    """
    data = read_file(path, "CRAWLER_KEY_FILE")
    if path.stat().st_mode & _OTHERS:
        raise FatalError(f"CRAWLER_KEY_FILE {path} must be private: run chmod 600 {path}.")

    try:
        private = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise FatalError(
            f"CRAWLER_KEY_FILE {path} must contain an Ed25519 key in PEM format, without a "
            f"password: {COMMAND} identity init makes one."
        )
    return SigningKey(private)


def write_new_key(path: Path) -> SigningKey:
    """Write a new key to the file *path*, which must not exist, and return it."""
    private = Ed25519PrivateKey.generate()
    text = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.touch(0o600, exist_ok=False)
    path.write_bytes(text)
    return SigningKey(private)


def _base64url(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()

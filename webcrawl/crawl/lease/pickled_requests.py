"""Pickled Requests: those that have no plain form, read only from trusted places.

To unpickle is to run what the bytes say. A job directory is trusted with that, as Scrapy's own are.
What drones send each other by Redis and HIVE_STORE is not: there a pickle is written, and read,
only under HMAC-SHA256 with the key in HIVE_KEY_FILE, which is in neither::

    signed := "signed/", HMAC-SHA256 of the pickle (32 bytes), pickle
"""

from __future__ import annotations

import hmac
import os
import pickle
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from webcrawl.crawl.lease.plain_requests import PLAIN, NotPlainError
from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_SIGNED: Final = b"signed/"
_MAC_BYTES: Final = 32
_LEAST_KEY: Final = 32
_MOST_KEY: Final = 4096


class LostRequestError(LookupError):
    """The request was only in the memory of a process that is gone, or its code is.

    *stat* counts them.
    """

    stat = "scheduler/lost"


class UntrustedPickleError(LostRequestError):
    """The error of a pickle that is not read, as it came from elsewhere and has no signature."""

    stat = "hive/requests/refused"


class PickledRequests:
    """Writes and reads them.

    is_shared: other processes get them, too. key: HIVE_KEY_FILE's, empty without.
    """

    def __init__(self, *, is_shared: bool = False, key: bytes = b"") -> None:
        self.is_shared = is_shared
        self._key = key

    @classmethod
    def from_settings(cls, settings: BaseSettings, *, is_shared: bool) -> Self:
        """With the key in HIVE_KEY_FILE if *is_shared*; FatalError for a file that cannot be."""
        file, store = settings.get("HIVE_KEY_FILE"), settings.get("HIVE_STORE")
        if not (is_shared and file):
            return cls(is_shared=is_shared)
        if store and Path(file).resolve().is_relative_to(Path(store).resolve()):
            raise FatalError(
                f"HIVE_KEY_FILE {file} is in HIVE_STORE, which it is to guard against."
            )
        return cls(is_shared=True, key=_key_in(Path(file)))

    def dump(self, parts: dict[str, Any], why: NotPlainError) -> bytes:
        """*parts* of a Request, pickled as they have no plain form: *why*, which is raised if they
        must. Raises any exception of what cannot be pickled."""
        if self.is_shared and not self._key:
            raise why
        data = pickle.dumps(parts, protocol=4)
        return _SIGNED + self._mac(data) + data if self.is_shared else data

    def load(self, packed: bytes, *, is_own: bool) -> Any:
        """The parts of ``dump``; *is_own* if they were always in this job's directory.
        UntrustedPickleError, and any exception of what cannot be unpickled."""
        if self._is_signed(packed):
            packed = packed[len(_SIGNED) + _MAC_BYTES :]
        elif self.is_shared and not is_own:
            raise UntrustedPickleError(
                "pickled Requests of a hive are read only if they are signed with the key in "
                "HIVE_KEY_FILE; a hive of webcrawl 0.1 is converted by webcrawl 0.2"
            )
        return pickle.loads(packed)  # noqa: S301  # see above

    def may_come_in(self, packed: bytes) -> bool:
        """Whether the Request *packed* may be taken from Redis."""
        return packed.startswith(PLAIN) or self._is_signed(packed)

    def _is_signed(self, packed: bytes) -> bool:
        if not (self._key and packed.startswith(_SIGNED)):
            return False
        start = len(_SIGNED) + _MAC_BYTES
        return hmac.compare_digest(packed[len(_SIGNED) : start], self._mac(packed[start:]))

    def _mac(self, data: bytes) -> bytes:
        return hmac.digest(self._key, data, "sha256")


def _key_in(path: Path) -> bytes:
    """The key in the file *path*. FatalError with one sentence for a file that is none."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            key = file.read(_MOST_KEY)
    except OSError as error:
        raise FatalError(f"HIVE_KEY_FILE {path} cannot be read: {error.strerror}.") from error
    if mode & 0o077:
        raise FatalError(
            f"HIVE_KEY_FILE {path} may be read or written by others (mode {mode:04o}): chmod 600."
        )
    if len(key) < _LEAST_KEY:
        raise FatalError(
            f"HIVE_KEY_FILE {path} has {len(key)} bytes, a key at least {_LEAST_KEY}: "
            "`head -c 32 /dev/urandom` makes one."
        )
    return key

"""Numbered objects of a folder in an object store: of those with one key, the highest counts.

Their names are ``<number>-<hash of the key>``, with a suffix or without. Numbers rise by the clock,
in microseconds, and are higher than all that are there. So writers need no lock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from xxhash import xxh3_64_hexdigest

from webcrawl.clock import TimeSource
from webcrawl.storage.object_store import ObjectStore

_NAME = re.compile(r"([0-9]{1,16})-[0-9a-f]{16}(\.[a-z]+)?")
# The limit for one object.
_MAX_BYTES = 1 << 28


@dataclass(eq=False)
class NumberedObjects:
    """The numbered objects in *folder* of *objects*; *clock* returns epoch seconds."""

    objects: ObjectStore
    folder: str
    clock: TimeSource

    def read(self, known: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return all objects by name, in the order of numbers; those in *known* are not read."""
        names = sorted(self._names(), key=number_of)
        return {
            name: known.get(name) or self.objects.read(f"{self.folder}/{name}", 0, _MAX_BYTES)
            for name in names
        }

    def add(self, key: str, data: bytes, *, number: int = 0, suffix: str = "") -> str:
        """Write *data* unless there is a newer object for *key*, and return the object's name.

        Older objects for *key* are deleted. Without a *number*, the new one gets the highest.
        """
        numbers = self._names()
        # The clock, unless another writer's clock is ahead.
        number = number or max(
            [round(self.clock() * 1e6), *(other + 1 for other in numbers.values())]
        )
        end = f"-{xxh3_64_hexdigest(key.encode())}{suffix}"
        of_key = {name: other for name, other in numbers.items() if name.endswith(end)}
        name = f"{number}{end}"
        if max(of_key.values(), default=0) < number:
            self.objects.write(f"{self.folder}/{name}", data)
        older = [name for name, other in of_key.items() if other < number]
        self.objects.delete(f"{self.folder}/{name}" for name in older)
        return name

    def _names(self) -> dict[str, int]:
        """Return the names of all numbered objects, with their numbers."""
        names = filter(_NAME.fullmatch, self.objects.names(self.folder))
        return {name: number_of(name) for name in names}


def number_of(name: str) -> int:
    """Return the number in the *name* of a numbered object."""
    return int(name.partition("-")[0])

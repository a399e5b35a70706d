"""Rates: limits on the contacts that a process begins and the bits that it receives per second.

They are set for the sake of the network's operator, with CONTACTS_MAX and BANDWIDTH_MAX, which the
processes of a hive share equally. Bytes are counted as connections receive them, including TLS but
not the headers of TCP and below. Downloads in progress are never slowed down, as their hosts would
look slow. Instead, the next contacts wait. Until a contact has ended, it is assumed to receive as
many bytes as earlier ones did on average.

Invariant: in t seconds no more contacts begin than the rate allows in t + 1 seconds, so at most 2 %
more in a minute. Bytes may exceed the rate if downloads in progress receive more than the average;
later contacts wait longer to make up for that. While no page is larger than 2 % of a minute's
bytes, the bytes of any minute are within 5 % of the rate. Nothing survives a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Self

from scrapy.settings import BaseSettings

from webcrawl.clock import TimeSource, now
from webcrawl.configuration.values import number

# Capacity that was not used can be used up to this many seconds later.
_SAVED_SECS = 1.0
# Bytes that the first contact is assumed to receive, and the number of contacts that the moving
# average covers.
_FIRST_BYTES = 16_384.0
_AVERAGED = 64

#: A function that connections call with the number of bytes received. The downloader sets it for
#: each download, and a connection keeps that of the download that opens it.
COUNT_RECEIVED: ContextVar[Callable[[int], object]] = ContextVar(
    "COUNT_RECEIVED", default=lambda _: None
)


class Rates:
    """The two limits of a process: *contacts* and *bits* per second, 0 for no limit.

    ``processes`` returns how many processes share the limits. *clock* returns seconds.
    """

    processes: Callable[[], int] = staticmethod(lambda: 1)

    def __init__(self, *, contacts: float, bits: float, clock: TimeSource) -> None:
        self._contacts = contacts
        self._bytes = bits / 8
        self._clock = clock
        # When each rate will have allowed everything that was used so far.
        self._contacts_due = 0.0
        self._bytes_due = 0.0
        #: Number of bytes that the next contact should receive: the average of earlier ones.
        self.expected_bytes = _FIRST_BYTES
        # Bytes received since the average was updated last.
        self._received_since = 0

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Create the limits from CONTACTS_MAX and BANDWIDTH_MAX in *settings*.

        Raises FatalError with one sentence for an invalid value.
        """
        return cls(
            contacts=number(settings, "CONTACTS_MAX", at_least=0),
            bits=number(settings, "BANDWIDTH_MAX", at_least=0),
            clock=now,
        )

    def use_limits_of(self, other: Rates) -> None:
        """Use the limits of *other* from now on; contacts and bytes so far still count."""
        self._contacts = other._contacts
        self._bytes = other._bytes

    @property
    def ready_at(self) -> float:
        """When the next contact may begin; a time in the past if it may begin now."""
        return max(self._contacts_due, self._bytes_due)

    @property
    def limit(self) -> str:
        """Name of the setting because of which the next contact waits; "" if it may begin now."""
        if self.ready_at <= self._clock():
            return ""
        return "CONTACTS_MAX" if self._contacts_due > self._bytes_due else "BANDWIDTH_MAX"

    def note_start(self) -> None:
        """Count a new contact and its ``expected_bytes``, which ``note_end`` needs later."""
        self._contacts_due = self._due_after(self._contacts_due, 1.0, self._contacts)
        self._spend_bytes(self.expected_bytes)

    def note_end(self, expected_bytes: float) -> None:
        """Count the end of a contact, with the ``expected_bytes`` that were counted at its start.

        These are given back: the bytes that it really received were counted meanwhile.
        """
        self._spend_bytes(-expected_bytes)
        # This is what all contacts together received since one of them ended last. The average of
        # these numbers is that of the bytes per contact.
        self.expected_bytes += (self._received_since - self.expected_bytes) / _AVERAGED
        self._received_since = 0

    def count_received(self, size: int) -> None:
        """Count *size* received bytes."""
        self._received_since += size
        self._spend_bytes(size)

    def _spend_bytes(self, size: float) -> None:
        """Count *size* bytes as used; a negative number gives bytes back."""
        self._bytes_due = (
            self._due_after(self._bytes_due, size, self._bytes) if self._bytes else 0.0
        )

    def _due_after(self, due: float, amount: float, rate: float) -> float:
        """Return when *rate* allows another *amount*, if it allows all earlier ones at *due*."""
        if not rate:
            return 0.0
        # Each process has an equal share of the rate, so an amount takes that many times as long.
        duration = amount * max(1, self.processes()) / rate
        # Capacity that was not used for longer than _SAVED_SECS is lost.
        return max(due, self._clock() - _SAVED_SECS) + duration

"""Rates: how many contacts a process begins, and how many bits it receives, in a second.

For the operator of the network: CONTACTS_MAX and BANDWIDTH_MAX, divided by the processes of a hive.
Bytes are those of connections as they come, TLS included, without the headers of TCP and below.
What is under way is never slowed down, as a host would be taken for a slow one: the next contacts
wait. Each of them is taken to bring as much as the average of those before, until it is over.

Invariant: in t seconds no more contacts begin than the rate gives in t + 1, so in a minute not 2 %
more. Bytes may be more by those that pages under way bring beyond the average, for which later ones
wait: a minute is held within 5 % while no page brings more than 2 % of it. Nothing is kept over a
restart.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Self

from webcrawl.clock import TimeSource, now
from webcrawl.configuration.values import number

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

# What was not used in these seconds is lost.
_SAVED_SECS = 1.0
# Bytes that a contact brings, before any has; and of how many the average is.
_FIRST_BYTES = 16_384.0
_AVERAGED = 64

#: Called with the number of bytes received, in this context; read when a connection is made.
RECEIVED: ContextVar[Callable[[int], object]] = ContextVar("RECEIVED", default=lambda _: None)


class Rates:
    """The two rates of a process: *contacts* and *bits* a second, 0 for no limit.

    ``processes`` gives the number of those that share them. *clock* gives seconds.
    """

    processes: Callable[[], int] = staticmethod(lambda: 1)

    def __init__(self, *, contacts: float, bits: float, clock: TimeSource) -> None:
        self._contacts = contacts
        self._bytes = bits / 8
        self._clock = clock
        # When what was spent of each is earned.
        self._contacts_due = self._bytes_due = 0.0
        self._average = _FIRST_BYTES
        self._unaveraged = 0

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """By CONTACTS_MAX and BANDWIDTH_MAX; FatalError with one sentence for a bad value."""
        return cls(
            contacts=number(settings, "CONTACTS_MAX", at_least=0),
            bits=number(settings, "BANDWIDTH_MAX", at_least=0),
            clock=now,
        )

    def take(self, other: Rates) -> None:
        """Limit contacts and bits as *other* does from now on; what was spent counts."""
        self._contacts, self._bytes = other._contacts, other._bytes

    @property
    def ready_at(self) -> float:
        """When the next contact may begin; a time that is over if it may now."""
        return max(self._contacts_due, self._bytes_due)

    @property
    def limit(self) -> str:
        """The setting of the rate that the next contact waits for; "" if it may begin now."""
        if self.ready_at <= self._clock():
            return ""
        return "CONTACTS_MAX" if self._contacts_due > self._bytes_due else "BANDWIDTH_MAX"

    def begun(self) -> float:
        """A contact begins; returns the bytes it is taken to bring, for ``ended``."""
        self._contacts_due = self._spent(self._contacts_due, 1.0, self._contacts)
        self._spend_bytes(self._average)
        return self._average

    def ended(self, expected: float) -> None:
        """A contact is over that was taken to bring *expected* bytes: what came is counted."""
        self._spend_bytes(-expected)
        self._average += (self._unaveraged - self._average) / _AVERAGED
        self._unaveraged = 0

    def received(self, size: int) -> None:
        """So many bytes have come."""
        self._unaveraged += size
        self._spend_bytes(size)

    def _spend_bytes(self, size: float) -> None:
        self._bytes_due = self._spent(self._bytes_due, size, self._bytes) if self._bytes else 0.0

    def _spent(self, due: float, amount: float, rate: float) -> float:
        if not rate:
            return 0.0
        return max(due, self._clock() - _SAVED_SECS) + amount * max(1, self.processes()) / rate

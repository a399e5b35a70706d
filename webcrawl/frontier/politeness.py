"""How long a host rests after a contact.

Called by the frontier at each release, and at recovery for contacts whose end is unknown. The
invariant: a policy never shortens the delay when the download took longer, so that a contact cut
off by a crash, timed until the restart, is never repeated too early.
"""

from __future__ import annotations

from typing import Protocol


class DelayPolicy(Protocol):
    """Any object with this is a delay policy."""

    def delay(self, took: float) -> float:
        """Seconds to rest after a contact of *took* seconds; must not fall as *took* grows."""
        ...


class FactorDelay:
    """Mercator's rule: wait a multiple of the time the download took, within bounds.

    "We wait 10 times as long as it took us to download a URL from a host before contacting that
    host again" (section 3.1). All in seconds; the ceiling keeps one stalled download from
    putting a host aside for hours, the floor keeps fast hosts from being hammered.

    >>> polite = FactorDelay(factor=10.0, floor=3.0, ceiling=120.0)
    >>> [polite.delay(took) for took in (0.01, 0.5, 5.0, 60.0)]
    [3.0, 5.0, 50.0, 120.0]
    """

    def __init__(self, *, factor: float, floor: float, ceiling: float) -> None:
        if factor < 0 or floor < 0 or ceiling < floor:
            raise ValueError(
                f"politeness needs factor >= 0 and 0 <= floor <= ceiling, "
                f"not {factor}, {floor}, {ceiling}"
            )
        self._factor = factor
        self._floor = floor
        self._ceiling = ceiling

    def delay(self, took: float) -> float:
        return min(max(self._factor * took, self._floor), self._ceiling)

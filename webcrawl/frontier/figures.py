"""The frontier in figures, under their names in the crawl's statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from webcrawl.frontier.back_end import BackEnd
    from webcrawl.frontier.front_end import FrontEnd
    from webcrawl.frontier.parked import Parked
    from webcrawl.frontier.snapshot import Counts


def figures(
    counts: Counts, front: FrontEnd, back: BackEnd, parked: Parked, held: dict[str, int]
) -> dict[str, int]:
    """The events, and the sizes of what waits, of what rests, and of what else is *held*. O(1), no
    disk."""
    events: dict[str, int] = msgspec.structs.asdict(counts)
    return (
        {f"frontier/{name}": count for name, count in (events | held).items()}
        | {
            "frontier/waiting": front.size + back.size,
            "frontier/front": front.size,
            "frontier/back": back.size,
            "frontier/queues": back.limit,
            "frontier/queues/spilled": back.spilled,
            "frontier/hosts/ready": back.ready,
            "frontier/hosts/held": back.held,
            "frontier/hosts/snoozed": back.snoozed,
            "frontier/hosts/in_process": back.in_process,
            "frontier/hosts/remembered": len(back.remembered),
            "frontier/hosts/rests_spilled": back.remembered.spilled,
            "frontier/parked": parked.size,
        }
        | {f"frontier/parked/{reason}": count for reason, count in parked.counts.items()}
    )

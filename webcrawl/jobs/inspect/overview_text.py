"""Text of the frontier's overview."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.jobs.inspect.why_text import as_of_text, host_text, moment

if TYPE_CHECKING:
    from webcrawl.jobs.inspect.overview import HostOverview, Overview

_LONGEST_NAME = 60


def overview_text(figures: Overview, *, now: float) -> str:
    """The lines of *figures*."""
    hosts = ", ".join(f"{count:,} {state}" for state, count in figures.hosts.items())
    rows = [("waiting", f"{figures.waiting:,} URLs")]
    rows += [(f"level {name}", f"{count:,}") for name, count in figures.levels.items() if count]
    rows += [
        ("host queues", f"{figures.in_host_queues:,}"),
        ("hosts", hosts),
        ("leased", f"{figures.leased:,}"),
    ]
    rows += [(f"parked {reason}", f"{count:,}") for reason, count in figures.parked.items()]
    rows += [
        (
            "eliminator",
            f"{figures.submitted:,} submitted and not in a queue yet, seen ones included",
        ),
        ("requeued", f"{figures.requeued:,} since the checkpoint"),
        ("finished", f"{figures.finished:,}, {figures.finished_since:,} since the checkpoint"),
        ("as of", as_of_text(figures.as_of)),
    ]
    text = "".join(f"{name:>14}  {value}\n" for name, value in rows)
    if figures.top:
        text += "\n  URLs waiting  host\n"
    for row in figures.top:
        until = f" until {moment(row.ready_at, now)}" if row.state == "resting" else ""
        text += f"{row.waiting:>14,}  {row.name[:_LONGEST_NAME]}  {row.state}{until}\n"
    return text


def host_overview_text(figures: HostOverview, *, now: float) -> str:
    """The lines of *figures* of one host."""
    rows = [("host", host_text(figures.host, now))]
    rows += [(place, f"{count:,}") for place, count in sorted(figures.places.items())]
    rows.append(("as of", as_of_text(figures.as_of)))
    return "".join(f"{name:>14}  {value}\n" for name, value in rows)

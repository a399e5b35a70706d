"""The frontier's figures in words, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.jobs.inspect.why_text import as_of_text, host_text, moment

if TYPE_CHECKING:
    from webcrawl.jobs.inspect.overview import HostOverview, Overview

_LONGEST_NAME = 60


def overview_text(told: Overview, *, now: float) -> str:
    """What *told* says, a line each."""
    hosts = ", ".join(f"{count:,} {state}" for state, count in told.hosts.items())
    rows = [("waiting", f"{told.waiting:,} URLs")]
    rows += [(f"level {name}", f"{count:,}") for name, count in told.levels.items() if count]
    rows += [
        ("host queues", f"{told.in_host_queues:,}"),
        ("hosts", hosts),
        ("leased", f"{told.leased:,}"),
    ]
    rows += [(f"parked {reason}", f"{count:,}") for reason, count in told.parked.items()]
    rows += [
        ("eliminator", f"{told.submitted:,} submitted and not in a queue yet, seen ones included"),
        ("requeued", f"{told.requeued:,} since the checkpoint"),
        ("finished", f"{told.finished:,}, {told.finished_since:,} since the checkpoint"),
        ("as of", as_of_text(told.as_of)),
    ]
    text = "".join(f"{name:>14}  {value}\n" for name, value in rows)
    if told.top:
        text += "\n  URLs waiting  host\n"
    for row in told.top:
        until = f" until {moment(row.ready_at, now)}" if row.state == "resting" else ""
        text += f"{row.waiting:>14,}  {row.name[:_LONGEST_NAME]}  {row.state}{until}\n"
    return text


def host_overview_text(told: HostOverview, *, now: float) -> str:
    """What *told* says of one host, a line each."""
    rows = [("host", host_text(told.host, now))]
    rows += [(place, f"{count:,}") for place, count in sorted(told.places.items())]
    rows.append(("as of", as_of_text(told.as_of)))
    return "".join(f"{name:>14}  {value}\n" for name, value in rows)

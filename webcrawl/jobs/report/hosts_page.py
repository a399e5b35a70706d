"""Table of all hosts of a crawl, sorted and filtered, for the monitor."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from webcrawl.clock import wall_time
from webcrawl.jobs.inspect.overview import HostRow
from webcrawl.jobs.report.figures import Link, Table, share, span

if TYPE_CHECKING:
    from webcrawl.jobs.report.totals_file import TotalsFile

#: Number of hosts on a page.
HOSTS_SHOWN = 100
#: Orders of the table, by their names.
ORDERS = {
    "time left": "left DESC",
    "waiting": "waiting DESC",
    "failures": "faults DESC",
    "share of time": "secs DESC",
    "pages": "pages DESC",
    "name": "host",
}
#: Conditions that rows must fulfil, by their names.
FILTERS = {
    "all": "1",
    "waiting": "waiting",
    "paused": "state = 'paused'",
    "ready": "state = 'ready'",
    "in process": "state = 'in process'",
    "failing": "faults",
}
# States are those at the last checkpoint. The time left is that of the queue if the host goes on as
# it did so far.
_ROWS = """
WITH rows AS (
    SELECT hosts.host, state, ready_at, coalesce(waiting, 0) AS waiting, pages, faults, denied,
        secs, (last - first) / nullif(fetches - 1, 0) AS period
    FROM hosts LEFT JOIN queues USING (host)
    UNION ALL
    SELECT host, state, ready_at, waiting, 0, 0, 0, 0, NULL FROM queues
    WHERE host NOT IN (SELECT host FROM hosts))
"""


class HostsPage(NamedTuple):
    """Hosts whose names contain *words*, from the one at *offset* on, of *total*."""

    table: Table
    total: int
    words: str
    state: str
    order: str
    offset: int


def hosts_page(
    file: TotalsFile, *, words: str = "", state: str = "", order: str = "", offset: int = 0
) -> HostsPage:
    """Return the hosts in *file* whose names contain *words*, with the filter *state* in *order*.

    Raises sqlite3.Error.
    """
    state = state if state in FILTERS else "all"
    order = order if order in ORDERS else "time left"
    chosen = f"FROM rows WHERE instr(host, :words) AND {FILTERS[state]}"
    now = wall_time()
    values = {"words": words.lower(), "offset": offset}
    ((total,),) = file.select(f"{_ROWS} SELECT count(*) {chosen}", values)
    ((all_secs,),) = file.select("SELECT total(secs) FROM hosts")
    found = file.select(
        f"{_ROWS} SELECT *, waiting * period AS left {chosen} "
        f"ORDER BY {ORDERS[order]}, host LIMIT {HOSTS_SHOWN} OFFSET :offset",
        values,
    )
    rows = []
    for host, host_state, ready_at, waiting, pages, faults, denied, secs, period, left in found:
        row = HostRow(host, host_state or "", ready_at or 0.0, waiting)
        rows.append(
            (
                Link(host, f"./?{urlencode({'url': host})}#ask"),
                # A pause that is over may have been followed by others.
                row.describe_state(now) if row.ready_at > now else host_state or "nothing waits",
                waiting,
                "" if left is None else span(left),
                "" if period is None else span(period),
                pages,
                faults,
                denied,
                share(secs, all_secs),
            )
        )
    head = (
        *("host", "state", "URLs waiting", "time left", "time per URL", "pages", "failures"),
        *("denied by robots.txt", "share of time"),
    )
    return HostsPage(Table(head, rows), total, words, state, order, offset)

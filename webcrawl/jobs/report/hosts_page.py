"""Table of all hosts of a crawl, sorted and filtered."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from webcrawl.clock import wall_time
from webcrawl.crawl.figures.summary import held_in_words, parked_lines
from webcrawl.jobs.inspect.overview import HostRow
from webcrawl.jobs.report.figures import Figure, Table, ask_about, share
from webcrawl.jobs.report.outcome_words import NOT_SENT, meaning_of
from webcrawl.states import HostState
from webcrawl.wording import span, utc_time

if TYPE_CHECKING:
    from webcrawl.jobs.report.totals_file import TotalsFile

#: Number of hosts on a page.
HOSTS_SHOWN = 100
#: Orders of the table, by their names.
ORDERS = {
    "time left": "left DESC, waiting DESC, faults DESC, pages DESC",
    "waiting": "waiting DESC",
    "failures": "faults DESC",
    "share of time": "secs DESC",
    "pages": "pages DESC",
    "name": "host",
}
#: Conditions that rows must fulfil, by their names.
FILTERS = {
    "all": "1",
    "contacted": "fetches",
    "waiting": "waiting",
    "paused": "state = 'paused' AND NOT is_excluded(host)",
    "ready": "state = 'ready' AND NOT is_excluded(host)",
    "excluded": "is_excluded(host)",
    "in process": "state = 'in process'",
    "parked": "host IN (SELECT host FROM parked)",
    "failing": "faults",
}
_LEAD = (
    "Queues are as of the last checkpoint{}. Time left is that of the queue, at the time per URL "
    "so far in this run, which includes the pauses. Share of time: of the time that all requests "
    "took."
)
_ROWS = """
WITH rows AS (
    SELECT hosts.host, state, ready_at, coalesce(waiting, 0) AS waiting, pages, faults, denied,
        hosts.secs, fetches,
        coalesce(paces.secs, (last - first) / nullif(sent - 1, 0)) AS period
    FROM hosts LEFT JOIN queues USING (host) LEFT JOIN paces USING (host)
    UNION ALL
    SELECT host, state, ready_at, waiting, 0, 0, 0, 0, 0, NULL FROM queues
    WHERE host NOT IN (SELECT host FROM hosts)
    UNION ALL
    SELECT DISTINCT host, NULL, 0, 0, 0, 0, 0, 0, 0, NULL FROM parked
    WHERE host NOT IN (SELECT host FROM hosts UNION ALL SELECT host FROM queues))
"""
_PARKED = "SELECT reason, urls FROM parked WHERE host = :host"
_ALL_PARKED = "SELECT reason, sum(urls) FROM parked GROUP BY reason"
_FAULTS = "SELECT urls, outcome, last FROM faults WHERE host = :host ORDER BY urls DESC, outcome"


class HostsPage(NamedTuple):
    """Hosts whose names contain *words*, from the one at *offset* on, of *total*.

    *as_of* says when all of this was read.
    """

    table: Table
    total: int
    words: str
    state: str
    order: str
    offset: int
    lead: str
    as_of: str = ""


def hosts_page(
    file: TotalsFile,
    *,
    words: str = "",
    state: str = "",
    order: str = "",
    offset: int = 0,
    limit: int = HOSTS_SHOWN,
) -> HostsPage:
    """Return the hosts in *file* whose names contain *words*, with the filter *state* in *order*.

    Raises sqlite3.Error.
    """
    state = state if state in FILTERS else "all"
    order = order if order in ORDERS else "time left"
    chosen = f"FROM rows WHERE instr(host, :words) AND {FILTERS[state]}"
    now = wall_time()
    values = {"words": words.lower(), "offset": offset, "limit": limit}
    ((total,),) = file.select(f"{_ROWS} SELECT count(*) {chosen}", values)
    ((all_secs,),) = file.select("SELECT total(secs) FROM hosts")
    found = file.select(
        f"{_ROWS} SELECT *, waiting * period AS left {chosen} "
        f"ORDER BY {ORDERS[order]}, host LIMIT :limit OFFSET :offset",
        values,
    )
    all_parked = dict(file.select(_ALL_PARKED).fetchall())
    lead = " ".join([_lead(file), *(f"{x}." for x in parked_lines(all_parked, has_finished=False))])
    rows = []
    for (
        host,
        host_state,
        ready_at,
        waiting,
        pages,
        faults,
        denied,
        secs,
        _,
        period,
        left,
    ) in found.fetchall():
        parked = dict(file.select(_PARKED, {"host": host}).fetchall())
        # A queue that is empty may still have URLs that wait for another reason.
        idle = "all URLs parked" if parked else HostState.IDLE
        is_excluded = file.is_excluded(host)
        row = HostRow(host, host_state or "", ready_at or 0.0, waiting)
        # A pause that is over may have been followed by others.
        shown_state = row.describe_state(now) if row.ready_at > now else host_state or idle
        rows.append(
            (
                ask_about(host),
                HostState.EXCLUDED if is_excluded else shown_state,
                waiting,
                "; ".join(f"{n:,}: {held_in_words(reason)}" for reason, n in parked.items()),
                "" if left is None or is_excluded else span(left),
                "" if period is None else span(period),
                share(secs, all_secs),
                pages,
                denied,
                faults,
                _why(file, host) if faults else "",
            )
        )
    head = (
        *("host", "state", "URLs waiting", "URLs parked, because of", "time left", "time per URL"),
        *("share of time", "pages", "denied by robots.txt", "failures"),
        "why they failed",
    )
    return HostsPage(Table(head, rows), total, words, state, order, offset, lead)


def _lead(file: TotalsFile) -> str:
    """Return what the columns of the table mean, and how old the queues in *file* are."""
    return _LEAD.format(f", {file.queues_at}" if file.queues_at else "")


def hosts_figure(file: TotalsFile, *, limit: int) -> Figure:
    """Return the first *limit* hosts: those that hold up the end."""
    table = hosts_page(file, limit=limit).table
    if not table.rows:
        return Figure("hosts", "Hosts", "None so far.")
    lead = (
        f"Those that hold up the end of the crawl come first, then those that failed. {_lead(file)}"
    )
    return Figure("hosts", "Hosts", lead, table)


def _why(file: TotalsFile, host: str) -> str:
    """Return how often each failure of *host* occurred, and when and what the last one was."""
    faults = file.select(_FAULTS, {"host": host}).fetchall()
    counts = ", ".join(f"{urls:,} {outcome}" for urls, outcome, _ in faults)
    # Those that were sent come before those that were not, because of the others.
    _, outcome, last = max(faults, key=lambda fault: (fault[1] not in NOT_SENT, fault[-1]))
    return f"{counts}; last {utc_time(last)}: {meaning_of(outcome) or outcome}"

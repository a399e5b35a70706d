"""Overview of the frontier in numbers: queues, hosts and their states, parked URLs.

For ``scrapy frontier``. The result is data, which ``overview_text`` and ``host_overview_text`` turn
into text.
"""

from __future__ import annotations

import heapq
from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING

import msgspec

from webcrawl.clock import wall_time
from webcrawl.crawl.figures.summary import parked_lines
from webcrawl.crawl.job.control_journal import in_force, saved_host_rules
from webcrawl.crawl.job.saved_settings import with_saved
from webcrawl.crawl.lease.outcome_log import OutcomeLine  # msgspec reads it
from webcrawl.frontier.entry import decode
from webcrawl.frontier.host_parts import keys_of_other_divisions
from webcrawl.frontier.view import Where
from webcrawl.jobs.arguments import host as read_host
from webcrawl.jobs.inspect.explanation import AsOf, as_of
from webcrawl.jobs.inspect.host_state import HostReport, host_state, state_of
from webcrawl.jobs.inspect.info_log import find_outcomes_of_host
from webcrawl.jobs.inspect.why_text import as_of_text, host_text, moment, outcome_text
from webcrawl.revisit.history import history_of
from webcrawl.states import HostState, State
from webcrawl.storage.record_log import unpack
from webcrawl.urls import host_of
from webcrawl.urls.registered_domain import POLITENESS_KEYS
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.settings import BaseSettings

    from webcrawl.jobs.inspect.job_view import JobView


# Number of characters of a host name that the table shows.
_LONGEST_NAME = 60
# So many URLs of each queue of URLs with a next visit are read, of at most 400 queues.
_MAX_VISITS = 500
_MAX_OUTCOMES = 5


class HostRow(msgspec.Struct, frozen=True):
    """Host with a back-end queue of *waiting* URLs. *ready_at* is in epoch seconds."""

    name: str
    state: str
    ready_at: float
    waiting: int

    def describe_state(self, now: float) -> str:
        """Return the state in words, with its end; *now* is in epoch seconds."""
        until = self.ready_at if self.state == HostState.PAUSED else 0.0
        return State(self.state, until=until).in_words(moment(until, now))


class Overview(msgspec.Struct, frozen=True):
    """How many URLs and hosts are in the frontier, by queue and state.

    waiting: URLs to be fetched, including those in process, but not parked or due ones.
    levels: waiting URLs in each front-end queue at the checkpoint.
    in_host_queues: waiting URLs in the queues of hosts at the checkpoint.
    leased: URLs in process at the checkpoint.
    new: waiting URLs that were in the eliminator at the checkpoint or were submitted since.
    finished: URLs finished since the crawl was started.
    finished_since: URLs finished since the checkpoint.
    parked: URLs parked at the checkpoint, by reason.
    due: URLs planned for another visit.
    hosts: numbers of hosts with a queue, by state.
    top: the hosts with the longest queues.
    """

    as_of: AsOf
    waiting: int
    levels: dict[str, int]
    in_host_queues: int
    hosts: dict[str, int]
    top: list[HostRow]
    leased: int
    parked: dict[str, int]
    due: int
    new: int
    finished: int
    finished_since: int


class HostOverview(msgspec.Struct, frozen=True):
    """State of a host, and how many of its URLs wait in each of *places*, such as "level 3".

    If the host is divided into parts, *parts* are those with a queue; each has its own pause.
    *outcomes* are the last ones of a host that was never contacted, such as failures of its name.
    """

    as_of: AsOf
    host: HostReport
    places: dict[str, int]
    parts: list[HostRow]
    outcomes: list[OutcomeLine] = []


def overview(view: JobView, *, top: int) -> Overview:
    """Count the URLs and hosts in the frontier, and find the *top* hosts with the longest queues.

    Reads the URLs submitted since the checkpoint (4 us each), but no queues.
    """
    frontiers = [shard.frontier for shard in view.shards]
    lengths: dict[Where, Counter[str]] = {where: Counter() for where in Where}
    for queue in chain.from_iterable(frontier.queues() for frontier in frontiers):
        lengths[queue.where][queue.name] += queue.length
    rows = [*host_rows(view)]
    # These states are shown in this order, even without a host.
    states: Counter[str] = Counter(ready=0, paused=0, **{HostState.IN_PROCESS: 0})
    states.update(row.state for row in rows)
    levels = lengths[Where.LEVEL]
    in_host_queues = sum(lengths[Where.HOST_QUEUE].values())
    leased, requeued = (sum(lengths[where].values()) for where in (Where.LEASED, Where.REQUEUED))
    new = sum(1 for shard in view.shards for _ in shard.seen.undecided_entries())
    # URLs finished since the checkpoint, which are still in its queues.
    removed = sum(frontier.finished_keys().size for frontier in frontiers)
    return Overview(
        as_of=as_of(view),
        waiting=max(sum(levels.values()) + in_host_queues + leased + requeued + new - removed, 0),
        levels=levels,
        in_host_queues=in_host_queues,
        hosts=dict(states),
        top=longest_queues(rows, top),
        leased=leased,
        parked=lengths[Where.PARKED],
        due=lengths[Where.DUE].total(),
        new=new,
        finished=sum(frontier.counts.finished for frontier in frontiers),
        finished_since=sum(frontier.finished_since for frontier in frontiers),
    )


def longest_queues(rows: list[HostRow], number: int) -> list[HostRow]:
    """Return the *number* rows with the longest queues, the longest first."""
    return heapq.nsmallest(number, rows, key=lambda row: (-row.waiting, row.name))


def host_rows(view: JobView) -> Iterator[HostRow]:
    """Yield a row for each host with a queue."""
    now = wall_time()
    for name, times in chain.from_iterable(shard.frontier.hosts() for shard in view.shards):
        yield HostRow(name, state_of(times, now=now), times.ready_at, times.length)


def parked_hosts(view: JobView, *, most: int) -> Iterator[tuple[str, str, int]]:
    """Yield rows of a host, a reason, and how many of its URLs were parked for it.

    As of the checkpoint, and of the first *most* parked URLs only. Takes 3 us for each.
    """
    counts: Counter[tuple[str, str]] = Counter()
    queues = chain.from_iterable(shard.frontier.queues() for shard in view.shards)
    for queue in queues:
        if queue.where is Where.PARKED:
            packed = chain.from_iterable(unpack(view.path, 0, piece) for piece in queue.pieces())
            entries = map(decode, islice(packed, max(most - counts.total(), 0)))
            counts.update((host_of(entry.url), queue.name) for entry in entries)
    for (host, reason), number in counts.items():
        yield host, reason, number


def mean_visit(view: JobView) -> float:
    """Return when the URLs that wait for their next visit were last visited, on average.

    In epoch seconds, as of the checkpoint; 0.0 if there are none. It is estimated from the first
    URLs of each queue, in half a second at most.
    """
    visits = 0.0
    number = 0
    for queue in chain.from_iterable(shard.frontier.queues() for shard in view.shards):
        if queue.where is Where.DUE:
            packed = chain.from_iterable(unpack(view.path, 0, piece) for piece in queue.pieces())
            histories = (history_of(decode(data)) for data in islice(packed, _MAX_VISITS))
            times = [history.at for history in histories if history is not None and history.at]
            if times:
                visits += queue.length * sum(times) / len(times)
                number += queue.length
    return visits / number if number else 0.0


def host_overview(view: JobView, host: str, settings: BaseSettings) -> HostOverview:
    """Return the state of *host*, as the user typed it, and count its waiting URLs.

    The result is about its politeness key, which may be its domain. *settings* name the files that
    may exclude it. Reads all queues, a million URLs in a fifth of a second. Raises FatalError if
    *host* is not a host.
    """
    name = read_host(host)
    url = f"http://[{name}]/" if ":" in name else f"http://{name}/"
    host = POLITENESS_KEYS[view.politeness_key](name)
    settings = with_saved(settings, view.own.facts)
    rules = saved_host_rules(settings, view.jobdirs[0], in_force(view.jobdirs))
    exclusion = rules.exclusion_of(host)
    places: Counter[str] = Counter()
    for shard in view.shards:
        finished = shard.frontier.finished_keys()
        places["new"] += sum(entry.host == host for entry in shard.undecided_entries(finished))
        for found in shard.frontier.find(
            lambda entry: entry.host == host, finished, containing=host.encode()
        ):
            # The queue of a host has the name of the host, which need not be repeated.
            name = "" if found.queue.where is Where.HOST_QUEUE else found.queue.name
            places[f"{found.queue.where.value} {name}".strip()] += 1

    shard = view.shard_of(host)
    state = host_state(shard, host, url=url, exclusion=exclusion)
    outcomes: list[OutcomeLine] = []
    if not (places.total() or shard.is_known(host)):
        lines = chain.from_iterable(find_outcomes_of_host(jobdir, host) for jobdir in view.jobdirs)
        outcomes = sorted(lines, key=lambda line: line.at)[-_MAX_OUTCOMES:]
        if not exclusion:
            name = HostState.IDLE if outcomes else HostState.UNKNOWN
            state = msgspec.structs.replace(state, state=name)
    # The keys of all parts into which the host may have been divided.
    keys = set(keys_of_other_divisions(host, 1))
    parts = [row for row in host_rows(view) if row.name in keys]
    if parts and state.state == HostState.READY:
        state = msgspec.structs.replace(state, state=HostState.IN_PARTS)
    # "+" removes zeros.
    return HostOverview(as_of(view), state, dict(+places), parts, outcomes)


def overview_text(figures: Overview, *, now: float) -> str:
    """Format *figures* as lines of text; *now* is in epoch seconds."""
    hosts = ", ".join(f"{count:,} {state}" for state, count in figures.hosts.items())
    if figures.new and not any(figures.hosts.values()):
        hosts = "shown after the next checkpoint"
    rows = [("waiting", counted(figures.waiting, "URL"))]
    rows += [(f"level {name}", f"{count:,}") for name, count in figures.levels.items() if count]
    rows += [
        ("host queues", f"{figures.in_host_queues:,}"),
        ("hosts", hosts),
        ("in process", f"{figures.leased:,}"),
    ]
    has_finished = not figures.waiting
    rows += [("parked", line) for line in parked_lines(figures.parked, has_finished=has_finished)]
    rows += [("due", f"{counted(figures.due, 'visit')} planned")] if figures.due else []
    rows += [
        ("new", f"{figures.new:,} found since the checkpoint, or not yet in a queue then"),
        ("finished", f"{figures.finished:,}, {figures.finished_since:,} since the checkpoint"),
        ("as of", as_of_text(figures.as_of)),
    ]
    text = "".join(f"{name:>14}  {value}\n" for name, value in rows)
    if figures.top:
        text += "\n  URLs waiting  host\n"
    return text + _row_text(figures.top, now)


def _row_text(rows: list[HostRow], now: float) -> str:
    """Format *rows* as lines of a table; *now* is in epoch seconds."""
    text = ""
    for row in rows:
        text += f"{row.waiting:>14,}  {row.name[:_LONGEST_NAME]}  {row.describe_state(now)}\n"
    return text


def host_overview_text(figures: HostOverview, *, now: float) -> str:
    """Format *figures* about one host as lines of text; *now* is in epoch seconds."""
    rows = [("host", host_text(figures.host, now))]
    rows += [(place, f"{count:,}") for place, count in sorted(figures.places.items())]
    rows += [("ended", outcome_text(outcome, now)) for outcome in figures.outcomes]
    rows.append(("as of", as_of_text(figures.as_of)))
    text = "".join(f"{name:>14}  {value}\n" for name, value in rows)
    return text + _row_text(figures.parts, now)

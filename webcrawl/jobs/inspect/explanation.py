"""Explains what happened to a URL: comparison form, filters, queue position and outcomes.

For ``scrapy why``. The result is data (``Explanation``), which why_text.py turns into text. Rules
and filters come from the present settings, and from those that were given to the crawl with ``-s``,
which are saved in its checkpoints.
"""

from __future__ import annotations

import time
from itertools import chain, islice
from typing import TYPE_CHECKING

import msgspec
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings, Settings

from webcrawl.clock import wall_time
from webcrawl.configuration.equivalences import equivalence_of
from webcrawl.configuration.values import whole_number
from webcrawl.crawl.job.control_journal import in_force, saved_host_rules
from webcrawl.crawl.job.saved_settings import with_saved
from webcrawl.crawl.links.submission import forward_fingerprint
from webcrawl.crawl.links.url_rules import OPEN, filters_of, own_filters, scope_of
from webcrawl.crawl.seeds.domains import SeedDomains
from webcrawl.frontier.due import due_at
from webcrawl.frontier.entry import NO_URLS
from webcrawl.frontier.view import Found, Where
from webcrawl.hosts.aliases import Aliases
from webcrawl.jobs.arguments import url as read_url
from webcrawl.jobs.inspect import info_log
from webcrawl.jobs.inspect.aliases import alias_of
from webcrawl.jobs.inspect.host_state import (
    HostReport,
    RobotsState,
    TrapState,
    host_state,
    robots_state,
    trap_state,
)
from webcrawl.jobs.inspect.info_log import find_original, find_outcomes, find_redirects
from webcrawl.jobs.inspect.job_view import JobView, ShardView, running
from webcrawl.net.guard import followed_schemes
from webcrawl.revisit.history import History, history_of
from webcrawl.seen.fingerprint import fingerprint, hexadecimal
from webcrawl.states import HostState, UrlState
from webcrawl.urls import host_of
from webcrawl.urls.registered_domain import POLITENESS_KEYS
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from webcrawl.crawl.lease.outcome_log import OutcomeLine
    from webcrawl.frontier import Entry

# Number of outcomes shown for a URL, the last ones. It has one, but more after a crash.
_OUTCOMES = 20
# Number of places shown for a URL. It waits in one, except for ordinary Requests.
_PLACES = 20


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """Place where a URL waits.

    *where* is a value of ``Where`` or "eliminator", and *queue* the level, host or reason for
    parking. *position* is 1 for the first of *length* URLs in the queue; neither counts URLs that
    were finished after the checkpoint. The other fields come from the entry. Of its last *visits*,
    at most 64, *changes* found a change, and *visited_at* is the time of the last successful one,
    in epoch seconds.
    """

    where: str
    url: str
    queue: str = ""
    position: int = 0
    length: int = 0
    tries: int = 0
    depth: int = 0
    kind: str = ""
    via: str = ""
    discovered_at: float = 0.0
    visited_at: float = 0.0
    visits: int = 0
    changes: int = 0


class AsOf(msgspec.Struct, frozen=True):
    """What an answer is based on: a checkpoint, and the logs since then.

    *checkpoint* is its number and *written_at* its time. *process* is the ID of the process that
    runs the crawl, or None if it is not running.
    """

    jobdir: str
    checkpoint: int
    written_at: str
    process: int | None


class Explanation(msgspec.Struct, frozen=True):
    """Facts about a URL, and the checkpoint and logs that they come from.

    state: one of ``states.UrlState``.
    reason: why the URL is in this state. If it is waiting, what its host does; if parked, the gate
        that parked it; if due, how often earlier visits found a change; if finished, its last
        outcome; else ``refused_by``.
    until: when the state will end, in epoch seconds.
    form: the comparison form of the URL.
    refused_by: the filter that would refuse the URL today, or why a redirect to it was not
        followed.
    judged_as: how the URL was found, as filters take this into account.
    places: where it waits.
    outcomes: its last outcomes, the newest last.
    duplicate_of: the URL that had the same content first.
    redirects: the last outcomes of URLs that redirect to it, if nothing else is known.
    known_since: the time from which on the log is complete, or None if it is complete
        (``info_log.known_since``).
    excluded: the source of the rule that excludes it; a list of BLOCKLISTS only if it has done so.
    table: the table of HOSTS_POLICY_FILE that applies.
    changes: effects of control commands that are in force.
    """

    url: str
    normalized: str
    form: str
    state: str
    as_of: AsOf
    host: HostReport
    robots: RobotsState
    trap: TrapState
    excluded: str
    table: str = ""
    refused_by: str = ""
    judged_as: str = ""
    places: list[Place] = []
    outcomes: list[OutcomeLine] = []
    redirects: list[OutcomeLine] = []
    duplicate_of: str = ""
    known_since: float | None = None
    reason: str = ""
    until: float = 0.0
    changes: list[str] = []


def explain(url: str, view: JobView, settings: BaseSettings) -> Explanation:
    """Explain *url*, as the user typed it, with *settings* and those given to the crawl.

    Raises FatalError if *url* is not a URL that can be crawled.
    """
    settings = with_saved(settings, view.own.facts)
    normalized = read_url(url, needs_scheme=False)

    form = equivalence_of(settings).comparison_form(normalized)
    fp = fingerprint(form)
    fps = {fp, forward_fingerprint(normalized, fp, {fp})}
    places = _places(view, settings, normalized, form, fps)
    outcomes = _last_lines(view, lambda jobdir: find_outcomes(jobdir, form=hexadecimal(fp)))
    is_known = bool(places or outcomes)
    redirects = (
        []
        if is_known
        else _last_lines(view, lambda jobdir: find_redirects(jobdir, target=normalized))
    )
    latest = places[0] if places else outcomes[-1] if outcomes else None

    hostname = host_of(normalized)
    key = POLITENESS_KEYS[view.politeness_key](hostname)
    shard = view.shard_of(key)
    refused_by, judged_as = _refusal(shard, settings, normalized, latest, redirects)

    changes = in_force(view.jobdirs)
    last_outcome = outcomes[-1].outcome if outcomes else ""
    host_rules = saved_host_rules(settings, view.jobdirs[0], changes, outcome=last_outcome)
    parts = host_rules.parts_of(hostname)

    robots = robots_state(shard, normalized, settings=settings)
    host = host_state(
        shard,
        key,
        url=normalized,
        parts=parts,
        crawl_delay=robots.crawl_delay,
        exclusion=host_rules.exclusion_of(hostname),
    )
    excluded = host_rules.exclusion_of(hostname, normalized) or next(
        filter(None, map(host_rules.exclusion_of, host.addresses)), None
    )

    state = _state(view, places, outcomes, fps, refused_by)
    budget = host_rules.host_policy(hostname).budget
    budget = whole_number(settings, "BUDGET_HOST_PAGES", at_least=0) if budget is None else budget
    reason, until = _reason(state, places, host, budget)
    if excluded and state == UrlState.WAITING:
        reason = f"it will be given up, because it is excluded by {excluded.source}"
        until = 0.0
    if reason == Aliases.name:
        reason = f"{reason}:{alias_of(view.shards, host_rules, hostname)}"

    return Explanation(
        url=url,
        normalized=normalized,
        form=form,
        state=state,
        reason=reason or (outcomes[-1].outcome if state == UrlState.FINISHED else refused_by),
        until=until,
        as_of=as_of(view),
        host=host,
        robots=robots,
        trap=trap_state(shard, normalized, settings=settings),
        table=host_rules.table_of(hostname),
        excluded=excluded.source if excluded else "",
        refused_by=refused_by,
        judged_as=judged_as,
        places=places,
        outcomes=outcomes,
        redirects=redirects,
        duplicate_of=_original(view, outcomes),
        known_since=info_log.known_since(view.path),
        changes=[
            *(change.as_sentence for change in changes if change.name == "pause"),
            *host_rules.commands_for(hostname),
        ],
    )


def as_of(view: JobView) -> AsOf:
    """Return what the answers of *view* are based on."""
    process = next(iter(running(view.jobdirs)), None)
    return AsOf(str(view.path), view.own.sequence, view.own.written_at, process)


def _last_lines(view: JobView, find: Callable[[Path], Iterable[OutcomeLine]]) -> list[OutcomeLine]:
    """Return the last log lines that *find* returns for all processes, the oldest first.

    *find* is called with each job directory.
    """
    lines = chain.from_iterable(map(find, view.jobdirs))
    return sorted(lines, key=lambda line: line.at)[-_OUTCOMES:]


def _places(
    view: JobView, settings: BaseSettings, url: str, form: str, fps: set[int]
) -> list[Place]:
    """Return the places where *url*, or a URL with the same comparison *form*, is queued.

    The eliminator is searched for the fingerprints *fps*, if no queue contains the URL.
    """
    form_of = equivalence_of(settings).comparison_form

    def is_wanted(entry: Entry) -> bool:
        return entry.kind not in NO_URLS and (entry.url == url or form_of(entry.url) == form)

    # With host rules, a URL of another host may have the same comparison form.
    host = b"" if settings.get("URL_HOST_RULES_FILE") else host_of(url).encode()
    places: list[Place] = []
    for shard in view.shards:
        finished = shard.frontier.finished_keys()
        queued = shard.frontier.find(is_wanted, finished, containing=host)
        places += map(_queue_place, islice(queued, _PLACES - len(places)))
        if not places:
            undecided = shard.undecided_entries(finished, fps)
            places += [_entry_place(entry, where="eliminator") for entry in undecided]
    return places


def _queue_place(found: Found) -> Place:
    """Return the place of an entry *found* in a queue."""
    queue = found.queue
    return msgspec.structs.replace(
        _entry_place(found.entry, where=queue.where.value),
        queue=queue.name,
        position=found.position,
        length=queue.length - found.gone,
    )


def _entry_place(entry: Entry, *, where: str) -> Place:
    """Return a place with the fields of *entry*; the queue and the position are left out."""
    history = history_of(entry) or History()
    return Place(
        where=where,
        url=entry.url,
        tries=entry.attempts,
        depth=entry.depth,
        kind=entry.kind,
        via=entry.via,
        discovered_at=entry.discovered_at,
        visited_at=history.at or history.stored_at,
        visits=history.visits,
        changes=history.changes,
    )


def _refusal(
    shard: ShardView,
    settings: BaseSettings,
    url: str,
    found: Place | OutcomeLine | None,
    redirects: list[OutcomeLine],
) -> tuple[str, str]:
    """Return the name of the filter that refuses *url*, or "", and how *url* was found, in words.

    *found* is the place or outcome of *url*, if it is known. Otherwise *url* is judged as the
    target of the last of *redirects*, or as a seed if there are none.
    """
    # Only a limited scope depends on the domains of the seeds.
    scope = scope_of(settings)
    table = shard.table("domains") if scope != OPEN else None
    depth, via = (0, "") if found is None else (found.depth, found.via)
    relation = "link"
    if redirects:  # the target has the same depth as the page
        depth = redirects[-1].depth
        via = redirects[-1].url
        relation = "redirect"
    filters = filters_of(
        settings,
        schemes=followed_schemes(settings),
        domains=() if table is None else SeedDomains(table),
        this_year=time.gmtime(wall_time()).tm_year,
        for_seeds=not via,
        own=own_filters(Crawler(Spider, Settings(settings))),
    )
    # For the only URL: how users' filters have rewritten it, and which filter refuses it, or None.
    (rewritten,), ((_, refused),) = filters.judge([url], depth, via)
    if redirects and not refused:  # the redirect may still not have been followed
        refused = redirects[-1].redirect_refused
    links = "link" if depth == 1 else "links"
    judged_as = f"a {relation} from {via}, {depth} {links} from a seed" if via else "a seed"
    if rewritten != url:
        judged_as += f", rewritten to {rewritten}"
    return refused or "", judged_as


def _original(view: JobView, outcomes: list[OutcomeLine]) -> str:
    """If the last outcome is a duplicate, return the URL that had its content first, else ""."""
    if not outcomes or not outcomes[-1].duplicate:
        return ""
    content = outcomes[-1].content
    originals = [find_original(jobdir, content=content) for jobdir in view.jobdirs]
    return min(filter(None, originals), key=lambda line: line.at).url if any(originals) else ""


_STATES = {
    Where.LEASED.value: UrlState.LEASED,
    Where.PARKED.value: UrlState.PARKED,
    Where.DUE.value: UrlState.DUE,
    "eliminator": UrlState.UNDECIDED,
}


def _state(
    view: JobView,
    places: list[Place],
    outcomes: list[OutcomeLine],
    fps: set[int],
    refused_by: str,
) -> UrlState:
    """Return the state of a URL that waits in *places* or has ended with *outcomes*.

    *fps* are its fingerprints in the eliminator, and *refused_by* is the filter that refuses it.
    """
    if places:
        return _STATES.get(places[0].where, UrlState.WAITING)
    if outcomes:
        return UrlState.FINISHED
    if any(shard.seen.has(fp) for shard in view.shards for fp in fps):
        return UrlState.SEEN
    return UrlState.REFUSED if refused_by else UrlState.UNKNOWN


def _reason(
    state: UrlState, places: list[Place], host: HostReport, budget: int
) -> tuple[str, float]:
    """Return why a URL that waits in *places* is in *state*, and until when, in epoch seconds.

    Returns "" and 0.0 if the places do not say. *budget* is the page budget of *host*, or 0.
    """
    if state == UrlState.PARKED:
        gate = places[0].queue  # the name of the queue is the reason for parking
        used = f": {host.begun:,} of {budget:,} pages" if gate == "host_budget" and budget else ""
        return f"{gate}{used}", 0.0
    if state == UrlState.DUE:
        place = places[0]
        visits = counted(place.visits, "visit")
        changed = f"changed in {place.changes} of {visits}"
        history = changed if place.changes else f"unchanged in {visits}"
        return history if place.visits else "", due_at(place.queue)
    if state == UrlState.WAITING:
        is_paused = host.state == HostState.PAUSED
        why = f"its host is paused ({host.because})" if is_paused else f"its host is {host.state}"
        return why, host.ready_at if is_paused else 0.0
    return "", 0.0

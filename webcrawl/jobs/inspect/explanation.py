"""Explanation of one URL: its comparison form, filters, queue position and outcomes.

For ``scrapy why``. The result is data (``Explanation``), which why_text.py turns into text. Rules
and filters come from the present settings, and from those given to the crawl with ``-s``, which are
saved in its checkpoints.
"""

from __future__ import annotations

import time
from itertools import chain, islice
from typing import TYPE_CHECKING

import msgspec
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from webcrawl.clock import wall_time
from webcrawl.configuration.equivalences import equivalence_of, rules_of
from webcrawl.configuration.values import whole
from webcrawl.crawl.job.control_journal import apply_host_rules, in_force
from webcrawl.crawl.job.saved_settings import with_saved
from webcrawl.crawl.links.submission import forwarded
from webcrawl.crawl.links.url_rules import OPEN, filters_of, own_filters, scope_of
from webcrawl.crawl.seeds.domains import SeedDomains
from webcrawl.doctor.states import HostState, UrlState
from webcrawl.errors import FatalError
from webcrawl.frontier.due import due_at
from webcrawl.frontier.entry import NO_URLS, decode
from webcrawl.frontier.view import Where
from webcrawl.hosts.host_rules import HostRules
from webcrawl.jobs.inspect import info_log
from webcrawl.jobs.inspect.host_state import (
    HostReport,
    RobotsState,
    TrapState,
    host_state,
    robots_state,
    trap_state,
)
from webcrawl.jobs.inspect.info_log import find_original, find_outcomes, find_redirects
from webcrawl.jobs.inspect.job_view import running
from webcrawl.net.guard import followed_schemes
from webcrawl.revisit.history import History, history_of
from webcrawl.seen.fingerprint import fingerprint, hexadecimal
from webcrawl.urls import host_of, normalize_seed
from webcrawl.urls.registered_domain import POLITENESS_KEYS
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from scrapy.settings import BaseSettings

    from webcrawl.crawl.lease.outcome_log import OutcomeLine
    from webcrawl.frontier import Entry
    from webcrawl.frontier.view import Found
    from webcrawl.jobs.inspect.job_view import JobView, ShardView

# Number of outcomes shown of one URL, the last ones. A URL ends once, or again after a crash.
_OUTCOMES = 20
# Number of places shown of one URL. It waits in one, except for ordinary Requests.
_PLACES = 20
# Number of characters of an invalid URL that an error repeats.
_SHOWN_CHARS = 200


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """Place where a URL waits.

    *where* is a value of ``Where`` or "eliminator", and *queue* the level, host or reason.
    *position* is 1 for the first of *length*; neither counts URLs that have been finished since the
    checkpoint. The other fields come from the entry: its last *visits*, at most 64, found
    *changes*, and *visited_at* is the time of the last successful one.
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
    """Time of an answer: the checkpoint, and the logs up to now.

    *process* is the process that runs the crawl, or None if it is not running.
    """

    jobdir: str
    checkpoint: int
    written_at: str
    process: int | None


class Explanation(msgspec.Struct, frozen=True):
    """Facts about a URL, with the moment of the answer.

    state, reason, until: one of ``doctor.states.UrlState``, why, and until when (epoch seconds).
    form: the comparison form of the URL.
    rules: the equivalences that made it from *normalized*.
    refused_by: the filter that would refuse the URL today, or why a redirect to it was not
        followed.
    judged_as: how the URL was found, which filters take into account.
    outcomes: the last ones, the newest last.
    duplicate_of: the URL that had the same content first.
    redirects: the last outcomes of URLs that redirect to it, if nothing else is known.
    known_since: see the function of that name.
    excluded: the source of the rule that excludes it.
    table: the table of HOSTS_POLICY_FILE that applies.
    changes: effects of control commands to the running crawl.
    """

    url: str
    normalized: str
    form: str
    rules: list[str]
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

    Raises FatalError if it is not a URL.
    """
    settings = with_saved(settings, view.own.facts)
    normalized = normalize_seed(url)
    if normalized is None:
        raise FatalError(f"{url[:_SHOWN_CHARS]!r} is not a URL that this crawler can fetch.")
    form = equivalence_of(settings).comparison_form(normalized)
    fp = fingerprint(form)
    fps = {fp, forwarded(normalized, fp, {fp})}
    places = _places(view, settings, normalized, form, fps)
    outcomes = _lines(view, lambda one: find_outcomes(one, form=hexadecimal(fp)))
    known = bool(places or outcomes)
    redirects = [] if known else _lines(view, lambda one: find_redirects(one, target=normalized))
    latest = places[0] if places else outcomes[-1] if outcomes else None
    key = POLITENESS_KEYS[view.politeness_key](host_of(normalized))
    shard = view.shard_of(key)
    refused_by, judged_as = _refusal(shard, settings, normalized, latest, redirects)
    hostname, changes = host_of(normalized), in_force(view.jobdirs)
    host_rules = HostRules.from_settings(settings)
    host_rules.open()
    apply_host_rules(host_rules, changes)
    parts = host_rules.parts_of(hostname)
    robots = robots_state(shard, normalized, settings=settings)
    host = host_state(shard, key, url=normalized, parts=parts, crawl_delay=robots.crawl_delay)
    excluded = host_rules.excluded_by(hostname, normalized) or next(
        filter(None, map(host_rules.excluded_by, host.addresses)), ""
    )
    state = _state(view, places, outcomes, fps, refused_by)
    budget = host_rules.host_policy(hostname).budget
    budget = whole(settings, "BUDGET_HOST_PAGES", at_least=0) if budget is None else budget
    reason, until = _reason(state, places, host, budget)
    return Explanation(
        url=url,
        normalized=normalized,
        form=form,
        rules=_rules(normalized, form, settings),
        state=state,
        reason=reason or (outcomes[-1].outcome if state == UrlState.FINISHED else refused_by),
        until=until,
        as_of=as_of(view),
        host=host,
        robots=robots,
        trap=trap_state(shard, normalized, settings=settings),
        table=host_rules.table_of(hostname),
        excluded=excluded,
        refused_by=refused_by,
        judged_as=judged_as,
        places=places,
        outcomes=outcomes,
        redirects=redirects,
        duplicate_of=_original(view, outcomes),
        known_since=info_log.known_since(view.path),
        changes=[
            *(one.as_sentence for one in changes if one.name == "pause"),
            *host_rules.commands_for(hostname),
        ],
    )


def as_of(view: JobView) -> AsOf:
    """Return the time of the answers of *view*."""
    process = next(iter(running(view.jobdirs)), None)
    return AsOf(str(view.path), view.own.sequence, view.own.written_at, process)


def _lines(view: JobView, find: Callable[[Path], Iterable[OutcomeLine]]) -> list[OutcomeLine]:
    """Return the last lines that *find* finds in the logs of all processes, the oldest first."""
    lines = chain.from_iterable(map(find, view.jobdirs))
    return sorted(lines, key=lambda one: one.at)[-_OUTCOMES:]


def _rules(normalized: str, form: str, settings: BaseSettings) -> list[str]:
    """Return the equivalences that turned *normalized* into *form*.

    They are those without which the result would differ or, where one can replace another, those
    that change something by themselves.
    """
    if form == normalized:
        return []
    names = rules_of(settings)

    def form_by(rules: frozenset[str]) -> str:
        return equivalence_of(settings, rules=rules).comparison_form(normalized)

    rules = [rule for rule in names if form_by(names - {rule}) != form]
    if equivalence_of(settings, with_hosts=False).comparison_form(normalized) != form:
        rules.append("host_rules")
    return sorted(rules or [rule for rule in names if form_by(frozenset({rule})) != normalized])


def _places(
    view: JobView, settings: BaseSettings, url: str, form: str, fps: set[int]
) -> list[Place]:
    form_of = equivalence_of(settings).comparison_form

    def wanted(entry: Entry) -> bool:
        return entry.kind not in NO_URLS and (entry.url == url or form_of(entry.url) == form)

    # With host rules, a URL of another host may have the same comparison form.
    host = b"" if settings.get("URL_HOST_RULES_FILE") else host_of(url).encode()
    places: list[Place] = []
    for shard in view.shards:
        finished = shard.frontier.finished_keys()
        queued = shard.frontier.find(wanted, finished, containing=host)
        places += map(_place, islice(queued, _PLACES - len(places)))
        if not places:
            entries = (decode(submitted.payload) for submitted in shard.seen.undecided(fps))
            places += [
                _place_of(entry, where="eliminator")
                for entry in entries
                if not finished.hides_entry(entry)
            ]
    return places


def _place(found: Found) -> Place:
    queue = found.queue
    return msgspec.structs.replace(
        _place_of(found.entry, where=queue.where.value),
        queue=queue.name,
        position=found.position,
        length=queue.length - found.gone,
    )


def _place_of(entry: Entry, *, where: str) -> Place:
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
    """Return the filter that refuses *url*, and how *url* was found, in words.

    It is judged as it was *found*, as the target of the last of *redirects*, or else as a seed.
    """
    scope = scope_of(settings)
    table = shard.table("domains") if scope != OPEN else None
    depth, via = (0, "") if found is None else (found.depth, found.via)
    relation = "link"
    if redirects:  # the target has the same depth as the page
        depth, via, relation = redirects[-1].depth, redirects[-1].url, "redirect"
    filters = filters_of(
        settings,
        schemes=followed_schemes(settings),
        domains=() if table is None else SeedDomains(table),
        this_year=time.gmtime(wall_time()).tm_year,
        for_seeds=not via,
        own=own_filters(Crawler(Spider, Settings(settings))),
    )
    (rewritten,), ((_, refused),) = filters.judge([url], depth, via)
    if redirects and not refused:
        refused = redirects[-1].redirect_refused
    links = "link" if depth == 1 else "links"
    judged_as = f"a {relation} from {via}, {depth} {links} from a seed" if via else "a seed"
    if rewritten != url:
        judged_as += f", rewritten to {rewritten}"
    return refused or "", judged_as


def _original(view: JobView, outcomes: list[OutcomeLine]) -> str:
    if not outcomes or not outcomes[-1].duplicate:
        return ""
    content = outcomes[-1].content
    found = [find_original(jobdir, content=content) for jobdir in view.jobdirs]
    return min(filter(None, found), key=lambda one: one.at).url if any(found) else ""


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
    names: set[int],
    refused_by: str,
) -> UrlState:
    if places:
        return _STATES.get(places[0].where, UrlState.WAITING)
    if outcomes:
        return UrlState.FINISHED
    if any(shard.seen.holds(name) for shard in view.shards for name in names):
        return UrlState.SEEN
    return UrlState.REFUSED if refused_by else UrlState.UNKNOWN


def _reason(
    state: UrlState, places: list[Place], host: HostReport, budget: int
) -> tuple[str, float]:
    """Return why a URL in *places* is in *state*, and until when, epoch seconds.

    "" and 0.0 if the places do not say. *budget* is that of its host, in pages.
    """
    if state == UrlState.PARKED:
        gate = places[0].queue
        used = f": {host.begun:,} of {budget:,} pages" if gate == "host_budget" and budget else ""
        return f"{gate}{used}", 0.0
    if state == UrlState.DUE:
        place, visits = places[0], counted(places[0].visits, "visit")
        changed = f"changed in {place.changes} of {visits}"
        found = changed if place.changes else f"unchanged in {visits}"
        return found if place.visits else "", due_at(place.queue)
    if state == UrlState.WAITING:
        rests = host.state == HostState.RESTING
        why = f"its host is resting ({host.because})" if rests else f"its host is {host.state}"
        return why, host.ready_at if rests else 0.0
    return "", 0.0

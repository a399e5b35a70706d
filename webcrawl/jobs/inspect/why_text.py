"""Formats the explanation of a URL as text, for ``scrapy why``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from webcrawl.crawl.lease.outcome_log import PURGED, OutcomeLine
from webcrawl.jobs.inspect.info_log import log_start_notice
from webcrawl.states import HostState, State
from webcrawl.wording import COMMAND, counted, span, utc_time

if TYPE_CHECKING:
    from webcrawl.jobs.inspect.explanation import AsOf, Explanation, Place
    from webcrawl.jobs.inspect.host_state import HostReport, RobotsState
    from webcrawl.rights.statements import Statement

# Estimated times are rounded up to multiples of these seconds.
_STEPS = (60, 300, 600, 1800, 3600, 21_600, 86_400)


def why_text(explanation: Explanation, *, now: float) -> str:
    """Format *explanation* as lines of text: a sentence, then the facts.

    *now* is the present time in epoch seconds.
    """
    rows = [("", _sentence(explanation, now)), ("URL", explanation.normalized)]
    if explanation.form != explanation.normalized:
        rows.append(("compared as", explanation.form))
    if explanation.refused_by:
        rows.append(("filter", f"{explanation.refused_by} refuses it as {explanation.judged_as}"))
    else:
        rows.append(("filters", f"all accept it as {explanation.judged_as}"))
    rows += [("waits", _place_text(place, now)) for place in explanation.places]
    rows += [("ended", outcome_text(outcome, now)) for outcome in explanation.outcomes]
    rows += [
        ("not loaded", f"{url}: {reason}")
        for outcome in explanation.outcomes
        for url, reason in outcome.unloaded
    ]
    rows += [("redirect of", _redirect_text(outcome, now)) for outcome in explanation.redirects]
    if explanation.duplicate_of:
        rows.append(("content of", explanation.duplicate_of))
    rows.append(("host", host_text(explanation.host, now)))
    if walls := explanation.host.walls:
        counts = ", ".join(f"{number:,} {name}" for name, number in walls.items())
        slowed = explanation.host.slowed  # how often its pauses were doubled
        slower = f"; its pauses are {1 << slowed} times longer" if slowed else ""
        rows.append(("walls", f"answers that blocked the crawler: {counts}{slower}"))
    if explanation.excluded:
        rows.append(("excluded by", explanation.excluded))
    if explanation.table:
        rows.append(("", f'has the table "{explanation.table}" in HOSTS_POLICY_FILE'))
    rows += [
        ("control", change) for change in explanation.changes if change != explanation.excluded
    ]
    rows.append(("robots.txt", _robots_text(explanation.robots, now)))
    # The last outcome has the present statements of the owner.
    for rights in [outcome.rights for outcome in explanation.outcomes[-1:]]:
        rows += [("owner", _statement_text(each, now)) for each in rights.statements]
        if rights.left_out:
            rows.append(("left out", f"of datasets, indexes and deltas, by {rights.left_out}"))
    rows += [("pattern", pattern) for pattern in explanation.trap.patterns]
    if explanation.trap.excepted:
        rows.append(("", "is in TRAP_EXCEPTIONS_FILE, so it is never parked as a trap"))
    fresh = explanation.trap.fresh
    fruitless = explanation.trap.fruitless
    rows.append(("pages", f"{fresh:,} of the host with new content, {fruitless:,} without"))
    if since := log_start_notice(explanation.known_since):
        rows.append(("", since))
    rows.append(("as of", as_of_text(explanation.as_of)))
    return "".join(f"{name:>11}  {value}\n" for name, value in rows)


_SENTENCES = {
    "leased": "It is being fetched.",
    "cut off": "It was being fetched when the crawl was killed, and will be fetched again.",
    "undecided": "It was found and is being checked for duplicates; then it goes to the frontier.",
    "seen": "It has been seen before, but the log has no result for it.",
    "unknown": "Nothing is known about it: it is not in a seed list, and no followed link leads to "
    "it. Links that are refused because of their page (nofollow, depth, scope) are only counted.",
}


# Why a parked URL waits, and how to release it.
_WAITS_FOR = {
    "host_budget": "its host has used its pages or bytes; raise BUDGET_HOST_PAGES or _BYTES and "
    "run the crawl again",
    "domain_budget": "its domain has used its pages or bytes; raise BUDGET_DOMAIN_PAGES or _BYTES "
    "and run the crawl again",
    "reputation": "its domain has used its page budget, which grows with the number of domains "
    "that link to it, and REPUTATION_ROUNDS times when nothing else can be fetched soon",
    "depth": "pages nearer to a seed are fetched first, because URL_MAX_DEPTH limits the depth",
    "rendering": "it was fetched; the scripts and data that it needs are fetched in the turns of "
    "their hosts, and after RENDER_WAIT_SECS it is rendered with what there is",
    "failing_origin": "its origin (scheme, host, port) has failed and is tried again later, or "
    "another port of its host is tried first",
    "unverified": "header fields, cookies and a proxy's password in HOSTS_POLICY_FILE go only over "
    "TLS with a valid certificate; verify = false in its table (for the proxy: proxy_verify = "
    "false) sends them anyway",
    "alias_of": "its host serves the same site as this one, from which the page is fetched, or may "
    "do so; if they differ, it is released; the command free releases it now",
    "learned_trap": "pages with one of its patterns below had content that was seen before; the "
    "next run releases it, or TRAP_EXCEPTIONS_FILE",
    "url_space": "its host has too many URLs for the pages with new content that it had; more such "
    "pages release it, or TRAP_EXCEPTIONS_FILE",
}


def _sentence(explanation: Explanation, now: float) -> str:
    """Say in one sentence what has happened to the URL, or what it waits for."""
    match explanation.state:
        case "due":
            history = f" ({explanation.reason})" if explanation.reason else ""
            at = moment(explanation.until, now)
            return f"It was fetched before and will be visited again after {at}{history}."
        case "finished":
            return _finished_sentence(explanation.outcomes[-1], now)
        case "waiting":
            host_state = explanation.reason
            end = f" until {moment(explanation.until, now)}" if explanation.until else ""
            return f"It waits, {_where(explanation.places[0])}; {host_state}{end}."
        case "parked":
            gate = explanation.places[0].queue
            waits_for = _WAITS_FOR.get(gate, "it will be checked again")
            return f"It is parked ({explanation.reason}): {waits_for}."
        case "refused":
            return f"It is not crawled: the filter {explanation.refused_by} refuses it."
        case state:
            # If the crawl is not running, nothing fetches a leased URL any more.
            is_cut_off = state == "leased" and explanation.as_of.process is None
            return _SENTENCES["cut off" if is_cut_off else state]


def _finished_sentence(outcome: OutcomeLine, now: float) -> str:
    """Say in one sentence how the URL ended with *outcome*."""
    if outcome.outcome == PURGED:
        return f"It was purged {moment(outcome.at, now)}: {COMMAND} purge has removed its page."
    ending = "was fetched" if outcome.status else "was given up"
    duplicate = ", with the same content as another URL" if outcome.duplicate else ""
    visit = f"; this visit found it {outcome.visit}" if outcome.visit else ""
    return f"It {ending} {moment(outcome.at, now)}: {outcome.outcome}{duplicate}{visit}."


_PLACES = {
    "level": "number {position} in front-end queue {queue}",
    "host queue": "number {position} in the queue of its host",
    "parked": "number {position} of the URLs parked with reason {queue}",
    "requeued": "to be tried again",
    "due": "for its next visit",
    "leased": "being fetched",
    "eliminator": "being checked for duplicates",
}


def _where(place: Place) -> str:
    """Describe the queue in which a URL waits, and its position there."""
    position = f"{place.position:,} of {place.length:,}"
    return _PLACES[place.where].format(position=position, queue=place.queue)


def _place_text(place: Place, now: float) -> str:
    """Describe where a URL waits, how it was found, and its earlier tries and visits."""
    found = f"found {moment(place.discovered_at, now)}" if place.discovered_at else "found"
    via = f", linked from {place.via} ({place.kind})" if place.via else f" as {place.kind}"
    tries = f"; earlier tries: {place.tries}" if place.tries else ""
    if place.visits:
        tries += f"; last visited {moment(place.visited_at, now)}: "
        tries += f"{place.changes} of the last {counted(place.visits, 'visit')} found a change"
    return f"{_where(place)}; {found}{via}, depth {place.depth}{tries}: {place.url}"


def outcome_text(outcome: OutcomeLine, now: float) -> str:
    """Describe how a fetch of a URL ended, and how the URL was found."""
    text = f"{moment(outcome.at, now)}: {outcome.outcome}"
    if outcome.status:
        text += f", {outcome.bytes:,} bytes in {outcome.took:.3f} s"
    if outcome.flags:
        text += f", flagged as {outcome.flags}"
    if outcome.passes:
        text += f", rendered in {counted(outcome.passes, 'pass')}"
    if outcome.tries > 1:
        text += f", after {outcome.tries} tries"
    if outcome.redirect:
        text += f", redirects to {outcome.redirect}"
    if outcome.redirect_refused:
        text += f" (not followed: {outcome.redirect_refused})"
    if outcome.robots:
        text += f', by "{outcome.robots}"'
    kind = outcome.kind
    via = outcome.via
    if kind:  # a purge removes it
        found = f"linked from {via} ({kind})" if via else f"found as {kind}"
        text += f"; {found}, depth {outcome.depth}"
    return f"{text}: {outcome.url}"


def _statement_text(statement: Statement, now: float) -> str:
    """Describe what a site owner says about the use of the page."""
    verdict = f" ({statement.verdict}s the crawl's purpose)" if statement.verdict else ""
    return f"{statement}{verdict}, read {moment(statement.read_at, now)}"


def _redirect_text(outcome: OutcomeLine, now: float) -> str:
    """Describe a redirect to the URL."""
    refused = f", not followed: {outcome.redirect_refused}" if outcome.redirect_refused else ""
    return f"{outcome.url}, {moment(outcome.at, now)}{refused}"


def host_text(host: HostReport, now: float) -> str:
    """Describe the state of *host* in words; *now* is in epoch seconds."""
    until = host.ready_at if host.state == HostState.PAUSED else 0.0
    text = f"{host.name}: {State(host.state, host.because, until).in_words(moment(until, now))}"
    if host.state == HostState.IN_PROCESS:
        text += f" since {moment(host.contact_since, now)}"
    text += f"; {counted(host.waiting, 'URL')} in its queue at the checkpoint"
    text += f", {counted(host.pages, 'download')}"
    if host.penalty_until:
        text += f"; given up until {moment(host.penalty_until, now)}"
    return text + (f"; {', '.join(host.addresses[:4])}" if host.addresses else "")


def _robots_text(robots: RobotsState, now: float) -> str:
    """Describe what robots.txt says about the URL."""
    match robots.verdict:
        case "not asked":
            return "is not used"
        case "unknown":
            return f"of {robots.origin} has not been fetched yet"
    by = f' by "{robots.line}"' if robots.line else ": no rule applies to it"
    if robots.verdict == "unreachable":
        by = ", so no page is requested"
    status = "no answer" if robots.status is None else f"status {robots.status}"
    delay = f"; Crawl-delay {robots.crawl_delay:g}" if robots.crawl_delay else ""
    return f"{robots.verdict}{by}; {status}, {moment(robots.fetched_at, now)}{delay}"


def as_of_text(as_of: AsOf) -> str:
    """Say in words which checkpoint and logs an answer is based on."""
    running = "stopped" if as_of.process is None else f"running in process {as_of.process}"
    return (
        f"checkpoint {as_of.checkpoint} of {as_of.written_at} and the logs since then; "
        f"{as_of.jobdir} is {running}"
    )


def estimated_moment(at: float, now: float) -> str:
    """Format the epoch second *at*, which was estimated *now*, rounded up.

    The error of such a time is some tenth of the time until then, so the next estimates mostly
    have the same text.

    >>> estimated_moment(1_700_001_234.0, 1_700_000_000.0)
    'about 2023-11-14 22:34 UTC, in 21 min'
    """
    step = max(secs for secs in _STEPS if secs <= max((at - now) / 10, _STEPS[0]))
    rounded = math.ceil(max(at, now) / step) * step
    return f"about {utc_time(rounded)[:-3]} UTC, in {span(rounded - now)}"


def moment(at: float, now: float) -> str:
    """Format the epoch second *at* in UTC, and say how long before or after *now* it is.

    >>> moment(1_700_000_000.0, 1_700_000_090.0)
    '2023-11-14 22:13:20 UTC (90 s ago)'
    """
    time = span(round(abs(now - at)))
    return f"{utc_time(at)} UTC ({f'{time} ago' if at <= now else f'in {time}'})"

"""Diagnosis: the cause that limits a crawl, with evidence and advice."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from webcrawl.configuration.decoding import Epoch  # msgspec reads it
from webcrawl.crawl.figures.counts import cause_in_words
from webcrawl.crawl.figures.summary import BUDGETS
from webcrawl.wording import COMMAND, counted

if TYPE_CHECKING:
    from webcrawl.crawl.figures.activity import CrawlActivity
    from webcrawl.doctor.process_meter import ProcessUse

# The CPU is the limit if the event loop uses or waits for at least this share of a core.
_FULL_CORE = 0.85
# Something else delays the event loop if it is late by this many seconds and uses less CPU.
_LATE_SECS = 0.03
_LITTLE_CPU = 0.6
# Smaller shares are ignored: of time spent waiting for a core, and of pages in process per worker.
_SOME = 0.05
# A module whose thread waits for this share of its time may be waiting for the disk.
_MAX_WAITS = 0.5
# The disk is busy if programs wait for it for at least this share of the time.
_DISK_BUSY = 0.2
# A hive can use another core if at least this much of one is idle, and if it can divide this many
# hosts.
_IDLE_CORE = 0.5
_HIVE_HOSTS = 10
# A module that holds the event loop for this share of the time slows the crawl.
_BLOCKS = 0.3
# With this share of the workers busy, there are too few of them.
_BUSY = 0.9
# Budgets are the limit if this many times more URLs are parked than waiting.
_MAX_PARKED = 2
_OUTAGES = frozenset({"network", "name_servers", "outage"})
# The reason of parked URLs that wait for a single port of a host.
_FAILING = "failing_origin"
# The reason of pages that are being rendered.
_RENDERING = "rendering"
# Maximum number of outcomes of refusing hosts in the evidence.
_MAX_OUTCOMES = 2


class Cause(StrEnum):
    """Reason why a crawl is not faster."""

    STARTING = "starting"
    POLITENESS = "politeness"
    REFUSALS = "refusals"
    ONE_REQUEST = "one_request_a_host"
    WORKERS = "workers"
    CPU = "cpu"
    NAME_SERVERS = "name_servers"
    BANDWIDTH = "bandwidth"
    CONTACT_RATE = "contact_rate"
    DISK = "disk"
    MODULES = "modules"
    BUDGETS = "budgets"
    RENDERING = "rendering"
    OUTAGE = "outage"
    PAUSED = "paused"
    NOTHING_LEFT = "nothing_left"

    @property
    def words(self) -> str:
        """Return the name of the cause in messages to users."""
        return cause_in_words(self)


#: Causes that affect all workers, so that more workers do not help.
SHARED = (
    *(Cause.CPU, Cause.NAME_SERVERS, Cause.BANDWIDTH, Cause.CONTACT_RATE, Cause.DISK),
    Cause.MODULES,
)
#: Causes that are certain from the first second.
CERTAIN = frozenset({Cause.OUTAGE, Cause.PAUSED, Cause.STARTING, Cause.NOTHING_LEFT})
_CHECK = "add hosts, and check these hosts and your network"
#: Advice by cause, and by what else decides. Causes that are missing here have none.
ADVICE = {
    "politeness": "add hosts, or if owners agree, set delay in HOSTS_POLICY_FILE",
    "one_request_a_host": "add hosts, or if owners agree, set parallel in HOSTS_POLICY_FILE",
    "refusals": _CHECK,
    "refusals: challenged": "add hosts, and ask their owners to let the crawler in",
    "refusals: walled": "add hosts, and ask their owners to let the crawler in",
    "refusals: http_429": "add hosts, and set a longer delay in HOSTS_POLICY_FILE",
    "refusals: http_503": "add hosts, and set a longer delay in HOSTS_POLICY_FILE",
    "workers": "set CONCURRENT_REQUESTS={workers}",
    "cpu: idle cores": f"use more cores with {COMMAND} hive",
    "cpu: other programs": "stop other programs on this machine",
    "name_servers": "set faster name servers in DNS_SERVERS",
    "bandwidth": "raise BANDWIDTH_MAX",
    "contact_rate": "raise CONTACTS_MAX",
    "disk": "put JOBDIR on a faster disk",
    "rendering": "raise RENDER_PROCESSES",
    "modules": f"make that module faster, or run it later with {COMMAND} replay",
    "modules: blocking": "run that module in a thread: set off_loop, or use asyncio.to_thread",
    "budgets": "raise {budget}",
    "nothing_left": "add seeds",
}


class Diagnosis(msgspec.Struct, frozen=True):
    """Cause that limits a crawl, with evidence and advice.

    *since* is in epoch seconds. *advice* is empty if there is none.
    """

    cause: Cause
    since: Epoch
    evidence: str
    advice: str = ""

    @property
    def brief(self) -> str:
        """Return the diagnosis in words, without time and advice."""
        return f"{self.cause.words}: {self.evidence}"

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since).astimezone()
        advice = f"; {self.advice}" if self.advice else ""
        return f"{self.cause.words} since {since:%H:%M:%S}: {self.evidence}{advice}"


def cause_of(now: CrawlActivity, use: ProcessUse) -> Cause | None:
    """Return what limits a crawl, given its activity *now* and the CPU *use* of its process.

    Returns None if there is no evidence of any cause, as between two requests.
    """
    # The event loop is late, although neither other processes nor its own threads take the CPU.
    is_late = use.lag >= _LATE_SECS and use.process < _LITTLE_CPU and use.waited < _SOME
    _, blocked_share = now.blocked_by
    is_blocked = blocked_share >= _BLOCKS
    # An event loop without requests to send or pages to process does not limit the crawl. If a
    # module blocks it, waiting work and pages say nothing about CPU and disk.
    pages = now.in_process - now.on_wire
    has_work = not is_blocked and (now.ready > 0 or pages > _SOME * now.workers)
    is_backed_up = not is_blocked and now.is_backed_up
    is_disk_busy = use.disk >= _DISK_BUSY
    waits_for_disk = now.is_backed_up and now.module_waits > _MAX_WAITS
    # Nothing is on its way to a host, and no host keeps the crawl waiting.
    is_quiet = not (now.on_wire or now.resting or now.ready or now.looking_up)
    is_empty = not (now.waiting or now.in_process or now.looking_up)
    parked = sum(_by_budget(now).values())
    max_parked = _MAX_PARKED * (now.waiting + now.in_process)
    failing = now.parked.get(_FAILING, 0)
    refusing = sum(now.refusing.values())
    rendering = now.parked.get(_RENDERING, 0)

    # Only the first cause that holds is returned, because it may be the reason for later ones.
    causes = {
        Cause.OUTAGE: not _OUTAGES.isdisjoint(now.pauses),
        Cause.PAUSED: bool(now.pauses),
        Cause.STARTING: now.awaits_seeds or (is_empty and now.reads_seeds and not now.waits_for),
        Cause.RENDERING: rendering > 0 and is_quiet and not pages,
        Cause.NOTHING_LEFT: (bool(now.waits_for) or is_empty) and not (parked or failing),
        # While more hosts are paused than pages wait, and none is ready, the hosts are the limit.
        Cause.CPU: (
            not is_blocked
            and (now.ready > 0 or pages > now.resting)
            and use.loop + use.waited >= _FULL_CORE
        )
        or (is_backed_up and use.process >= _FULL_CORE),
        Cause.DISK: is_disk_busy and not is_blocked and (waits_for_disk or (has_work and is_late)),
        Cause.BANDWIDTH: now.limit == "BANDWIDTH_MAX",
        Cause.CONTACT_RATE: bool(now.limit),  # there are only these two limits
        Cause.MODULES: is_backed_up or is_blocked or (is_quiet and pages > 0),
        Cause.WORKERS: now.on_wire >= _BUSY * now.workers,
        Cause.NAME_SERVERS: now.looking_up > max(now.on_wire, now.resting),
        # Most URLs wait for failing ports, or more than half of the paused hosts refuse requests.
        Cause.REFUSALS: failing > now.waiting + now.in_process
        or 2 * refusing > now.resting >= now.on_wire,
        Cause.BUDGETS: parked > max_parked,
        # More hosts have a request under way than are paused between requests.
        Cause.ONE_REQUEST: now.on_wire > now.resting,
        Cause.POLITENESS: now.resting > 0,
    }
    return next((cause for cause, holds in causes.items() if holds), None)


def evidence_of(cause: Cause, now: CrawlActivity, use: ProcessUse) -> str:
    """Return the evidence for *cause* in words, from the activity *now* and the CPU *use*."""
    # The parts of the sentences below. Each is made even if this cause does not need it.
    workers = f"{now.on_wire:,} of {counted(now.workers, 'worker')} busy"
    slow_hosts = f", {now.slow:,} with slow hosts" if now.slow else ""
    waits = f", and waits for one {use.waited:.0%} of the time" if use.waited >= _SOME else ""
    cpu = f"event loop uses {use.loop:.0%} of a core{waits}"
    if use.loop + use.waited < _FULL_CORE:
        cpu = f"its threads use {use.process:.0%} of a core"
    held = f", {counted(now.held, 'host')} held by the per-domain share of workers"
    held_hosts = held if now.held else ""
    next_ready_in = now.next_ready_in or 0.0
    next_ready = f", the next is ready in {next_ready_in:,.0f} s" if next_ready_in >= 1 else ""

    pages = counted(now.in_process - now.on_wire, "page")
    backed_up = f"{pages} wait for the module {now.module}" if now.module else f"{pages} wait"
    limited = f"{now.limit} was reached; {workers}"
    pauses = ", ".join(name.replace("_", " ") for name in now.pauses)
    waiting = f"{counted(now.waiting, 'URL')} waiting"
    resting = (
        "1 host is paused between requests"
        if now.resting == 1
        else f"{counted(now.resting, 'host')} are paused between requests"
    )
    refusing = Counter(now.refusing).most_common(_MAX_OUTCOMES)
    outcomes = ", ".join(f"{outcome} {number:,}" for outcome, number in refusing)
    refusing_hosts = f"{sum(now.refusing.values()):,} of {now.resting:,} paused hosts"
    refused = f"{refusing_hosts} are refusing requests: {outcomes}"
    failing = f"{counted(now.parked.get(_FAILING, 0), 'URL')} waiting for failing ports"
    parked = ", ".join(
        f"{number:,} parked by {gate}" for gate, number in _parked_for_good(now).items()
    )
    idle = f"waiting for {now.waits_for}" if now.waits_for else "no URLs waiting"
    delayed = f"event loop delayed by {use.lag * 1000:,.0f} ms while using {use.loop:.0%} of a core"

    disk = f"programs wait for a disk {use.disk:.0%} of the time"

    module, share = now.blocked_by
    blocked = f"{module} blocks the event loop {share:.0%} of the time"

    evidence = {
        Cause.STARTING: "all seeds are read first" if now.awaits_seeds else "seeds are being read",
        Cause.WORKERS: f"{workers}{slow_hosts}, {counted(now.ready, 'host')} ready",
        Cause.CPU: cpu,
        Cause.NAME_SERVERS: f"resolving {counted(now.looking_up, 'host')}; {workers}",
        Cause.BANDWIDTH: limited,
        Cause.CONTACT_RATE: limited,
        Cause.DISK: f"{backed_up if now.is_backed_up else delayed}; {disk}",
        Cause.MODULES: blocked if share >= _BLOCKS else backed_up,
        Cause.BUDGETS: f"{sum(_by_budget(now).values()):,.0f} URLs parked, {now.waiting:,} waiting",
        Cause.RENDERING: f"{counted(now.parked.get(_RENDERING, 0), 'page')} being rendered",
        Cause.OUTAGE: pauses,
        Cause.PAUSED: pauses,
        Cause.NOTHING_LEFT: f"{idle}, {parked}" if parked else idle,
        Cause.ONE_REQUEST: f"{workers}; {resting}; {waiting}",
        Cause.REFUSALS: refused if refusing else failing,
        Cause.POLITENESS: f"{resting}{next_ready}{held_hosts}; {workers}",
    }
    return evidence[cause]


def advice_of(cause: Cause, now: CrawlActivity, use: ProcessUse, *, is_drone: bool = False) -> str:
    """Return advice about *cause* in words; empty if there is none.

    *now* is the activity of the crawl, *use* the CPU use of its process. *is_drone* says whether it
    is one of the processes of a hive.
    """
    if cause in (Cause.OUTAGE, Cause.PAUSED):
        return " ".join(now.pauses.values())
    by_budget = _by_budget(now)
    budget = max(by_budget, key=by_budget.__getitem__, default="")
    advice = ADVICE.get(_advice_key(cause, now, use, is_drone=is_drone), "")
    return advice.format(workers=2 * now.workers, budget=BUDGETS.get(budget))


def _advice_key(cause: Cause, now: CrawlActivity, use: ProcessUse, *, is_drone: bool) -> str:
    """Return which advice of ``ADVICE`` removes *cause*; "" if none does. As ``advice_of``."""
    has_idle_core = use.idle >= _IDLE_CORE and use.waited < _SOME
    main_refusal = max(now.refusing, key=now.refusing.__getitem__, default="")
    detail = f"{cause}: {main_refusal}"
    match cause:
        case Cause.CPU:
            return _cpu_advice_key(now, use, has_idle_core=has_idle_core and not is_drone)
        case Cause.WORKERS if not (now.ready or now.queued) or use.process >= _LITTLE_CPU:
            # Hosts get a queue only when workers need one, so URLs of more hosts may be queued in
            # the front end.
            return ""
        case Cause.RENDERING if not has_idle_core:
            return ""
        case Cause.MODULES if now.blocked_by[1] >= _BLOCKS:
            return "modules: blocking"
        case Cause.REFUSALS if detail in ADVICE:
            return detail
    return cause


def _cpu_advice_key(now: CrawlActivity, use: ProcessUse, *, has_idle_core: bool) -> str:
    """Return which advice removes ``Cause.CPU``, as ``_advice_key``."""
    # Without the others, the event loop would have enough. Its process has other threads, too.
    own_threads = use.process - use.loop
    if use.loop < _FULL_CORE <= use.loop + use.waited and use.waited > own_threads:
        return "cpu: other programs"
    hosts = now.on_wire + now.ready + now.held + now.resting
    return "cpu: idle cores" if has_idle_core and hosts >= _HIVE_HOSTS else ""


def _by_budget(now: CrawlActivity) -> dict[str, float]:
    """Return the numbers of parked URLs that only a larger budget releases, by reason."""
    return {reason: number for reason, number in _parked_for_good(now).items() if reason in BUDGETS}


def _parked_for_good(now: CrawlActivity) -> dict[str, float]:
    """Return the numbers of parked URLs that this crawl will not release, by reason."""
    numbers = {
        reason: number - now.postponed.get(reason, 0) for reason, number in now.parked.items()
    }
    return {reason: number for reason, number in numbers.items() if number}

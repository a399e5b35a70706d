"""Activity of a crawl at one moment: the numbers on which a diagnosis is based."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class CrawlActivity(NamedTuple):
    """Activity of a crawl at one moment.

    Numbers of URLs:
        waiting: in the frontier.
        queued: waiting in the front end, included in *waiting*.
        parked: waiting on disk because of a rule, by reason.
        postponed: parked, but released once nothing else is left, by reason.
        due: waiting for their next visit.
        fresh: visited with a response within the last week.

    Numbers of requests and pages:
        in_process: requests and pages together.
        on_wire: requests that occupy a worker.
        slow: requests that have waited for their response for some seconds.

    Numbers of hosts:
        looking_up: their names are being resolved.
        ready: may be contacted.
        held: ready, but their domain already has its share of the workers.
        resting: paused between requests.
        refusing: resting hosts whose last request failed or was blocked, by outcome.

    Limits:
        is_backed_up: whether no host is contacted because too many pages are in process.
        module: the processing module that takes the most time for these pages.
        module_waits: the share of that time in which the module used no CPU.
        blocked_by: the module that held the event loop longest, and its share of the time.
        limit: the rate setting that delays the next request, if any.
        pauses: reasons why no host is contacted, each with a sentence.
        next_ready_in: seconds until the next host is ready, if all hosts with URLs are resting.
        reads_seeds: whether there may be more seeds.
        awaits_seeds: whether all seeds are read before the first request.
        waits_for: what a crawl or drone without URLs waits for.
    """

    waiting: int
    in_process: int
    workers: int
    on_wire: int = 0
    slow: int = 0
    looking_up: int = 0
    ready: int = 0
    held: int = 0
    resting: int = 0
    queued: int = 0
    parked: Mapping[str, int] = {}
    postponed: Mapping[str, float] = {}
    is_backed_up: bool = False
    module: str = ""
    module_waits: float = 0.0
    blocked_by: tuple[str, float] = ("", 0.0)
    limit: str = ""
    refusing: Mapping[str, int] = {}
    pauses: Mapping[str, str] = {}
    next_ready_in: float | None = None
    awaits_seeds: bool = False
    reads_seeds: bool = False
    waits_for: str = ""
    due: int = 0
    fresh: int = 0

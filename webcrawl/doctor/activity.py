"""Activity of a crawl at one moment: the numbers that the doctor judges by."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class CrawlActivity(NamedTuple):
    """Activity of a crawl at one moment.

    *waiting* are URLs, of which *queued* wait in the front end;
    *parked* are others, by reason, and *postponed* of these are let in once nothing else is left.
    *in_process* are contacts and pages, of which *on_wire* hold a worker
    and *slow* have had no answer for some seconds; *looking_up*, *ready*, *held*
    (of domains that have their share of the workers) and *resting* are hosts. *is_backed_up* says
    that so many pages are in process that no host is contacted, *module* is the processing module
    that takes the most time of them, and *module_waits* the share of that in which it used no CPU.
    *blocked_by* is the module that held the event loop longest, and for which share of the time.
    *limit* is the setting of a rate that the next contact waits for, if any. *refusing* are resting
    hosts whose last contact failed or met a wall, by outcome. *pauses* are the reasons for which
    nothing is contacted, each with its sentence, *bound_for* the seconds until the next host is
    ready if all that have URLs rest. *reads_seeds* says that there may be more seeds, and
    *awaits_seeds* that all are read before the first contact.
    *waits_for* is what a crawl or drone waits for that has nothing left. *due* and *fresh* are URLs
    that wait for their next visit, and that were answered within a week.
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
    bound_for: float | None = None
    awaits_seeds: bool = False
    reads_seeds: bool = False
    waits_for: str = ""
    due: int = 0
    fresh: int = 0

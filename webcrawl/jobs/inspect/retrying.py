"""Retry of URLs that were given up, by outcome: ``scrapy frontier --retry``.

It takes the URLs whose *last* line in the log of finished URLs has one of the outcomes, unless they
wait already. They go straight to the frontier, as the eliminator would take them for seen, and into
its done log: if the process dies, running the command again does the rest. Their hosts are tried
anew, however often they had failed; rests, robots.txt and budgets hold as for any URL.

The log does not have all of an entry: links since the entrance of a host count from the URL itself,
and redirects from none. Ordinary Requests of a spider are left out, and URLs that the log has cut.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from webcrawl.clock import wall_time
from webcrawl.crawl.lease.outcome_log import GIVEN_UP, MAX_URL, is_given_up
from webcrawl.errors import FatalError
from webcrawl.frontier import NO_URLS, Entry
from webcrawl.jobs.inspect.info_log import ends
from webcrawl.jobs.inspect.job_view import ask
from webcrawl.jobs.inspect.stopped_job import opened
from webcrawl.seen.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from scrapy.crawler import Crawler

    from webcrawl.crawl.job_state import JobState
    from webcrawl.jobs.inspect.job_view import JobView

# Fingerprints are held at once, 0.1 kB each.
_MOST_URLS: Final = 1 << 23
_TOLD_EVERY: Final = 10_000


class Retried(msgspec.Struct):
    """Counts of a retry.

    *urls* were put back in line; *waiting* were there already, and *left_out* are ordinary Requests
    and cut URLs.
    """

    urls: int = 0
    waiting: int = 0
    left_out: int = 0


def split_outcomes(text: str) -> frozenset[str]:
    """The outcomes in *text*, joined by commas. FatalError if one is none of URLs given up."""
    names = [name.strip() for name in text.split(",")]
    unknown = next((name for name in names if not is_given_up(name)), None)
    if unknown is not None:
        known = ", ".join(sorted(GIVEN_UP))
        raise FatalError(
            f"{unknown!r} is no outcome of URLs that are given up; those are {known}, and http_ "
            "with a status from 400 on."
        )
    return frozenset(names)


def retry(
    crawler: Crawler,
    outcomes: Collection[str],
    *,
    on_progress: Callable[[int, str], None],
) -> Retried:
    """Put back in line what was given up with one of *outcomes* in the stopped job that
    *crawler*'s settings name. *on_progress* is called with a count and
    its unit. FatalError with one sentence."""
    ask(Path(crawler.settings["JOBDIR"]), lambda _: None)  # FatalError if there is no crawl
    done = Retried()
    with opened(crawler) as stopped:
        jobdir = stopped.job.path
        wanted = _last_given_up(jobdir, outcomes, on_progress)
        done.waiting = ask(jobdir, partial(_take_waiting, wanted=wanted))
        _requeue(stopped.state, wanted, outcomes, on_progress, done)
    return done


def _last_given_up(
    jobdir: Path, outcomes: Collection[str], on_progress: Callable[[int, str], None]
) -> set[int]:
    """The fingerprints of the URLs whose last line has one of *outcomes*. FatalError if they are
    too many."""
    found: set[int] = set()
    for number, end in enumerate(ends(jobdir)):
        if number % _TOLD_EVERY == 0:
            on_progress(number, "lines of the log read")
        name = fingerprint(end.url)
        if end.outcome in outcomes:
            found.add(name)
        else:
            found.discard(name)
        if len(found) > _MOST_URLS:
            raise FatalError(f"More than {_MOST_URLS:,} URLs ended so: name fewer outcomes.")
    return found


def _take_waiting(view: JobView, *, wanted: set[int]) -> int:
    """Take those out of *wanted* that wait in the frontier; how many they were."""
    before = len(wanted)
    for shard in view.shards if wanted else ():
        for found in shard.frontier.entries(shard.frontier.finished_keys()):
            if found.entry.kind not in NO_URLS:
                wanted.discard(fingerprint(found.entry.url))
    return before - len(wanted)


def _requeue(
    state: JobState,
    wanted: set[int],
    outcomes: Collection[str],
    on_progress: Callable[[int, str], None],
    done: Retried,
) -> None:
    for end in ends(state.resources.job.path) if wanted else ():
        name = fingerprint(end.url)
        if end.outcome not in outcomes or name not in wanted:
            continue
        wanted.discard(name)
        if end.kind == "request" or len(end.url) >= MAX_URL:
            done.left_out += 1
            continue
        key = state.rules.key_of(end.url)
        shard = state.shards.of(end.url)
        shard.hosts.politeness.forgive(key, end.url)
        shard.hosts.robots.forgive(end.url)
        shard.frontier.requeue(
            Entry(
                url=end.url,
                host=key,
                depth=end.depth,
                rank=shard.ranks.rank(key),
                via=end.via,
                kind=end.kind,
                discovered_at=wall_time(),
            )
        )
        done.urls += 1
        if done.urls % _TOLD_EVERY == 0:
            on_progress(done.urls, "URLs put back in line")
            shard.hosts.records.flush()

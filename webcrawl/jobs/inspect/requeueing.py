"""Putting finished URLs back in line: ``scrapy frontier --retry``, ``--refetch`` and ``--due``.

URLs are selected by their *last* line in the log of finished URLs, and those that already wait are
left out. They go directly to the frontier, because the eliminator has seen them, and into its done
log. If the process dies, run the command again to do the rest.

``--retry`` selects URLs that were given up, by outcome; their hosts are tried again even if they
failed often. ``--refetch`` and ``--due`` select answered URLs, which are visited again.

The log does not have everything about an entry: links since the entrance of a host are counted from
the URL itself, and redirects start at 0. Ordinary Requests of a spider are left out, and so are
URLs that were too long for the log.
"""

from __future__ import annotations

import fnmatch
import re
from array import array
from itertools import chain, compress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from webcrawl.clock import wall_time
from webcrawl.configuration.values import measured
from webcrawl.crawl.lease.outcome_log import GIVEN_UP, MAX_URL, OutcomeLine, is_given_up
from webcrawl.errors import FatalError
from webcrawl.frontier import NO_URLS, Entry, decode, encode
from webcrawl.frontier.view import Where
from webcrawl.hive.bus.live_seeds import visit_item
from webcrawl.jobs.inspect.job_view import ask
from webcrawl.jobs.inspect.last_lines import digest, last_lines, lines_at, logs_of
from webcrawl.jobs.inspect.stopped_job import opened
from webcrawl.revisit.history import History, encode_history, history_of, visited
from webcrawl.revisit.visits import Visits
from webcrawl.seen.fingerprint import fingerprint
from webcrawl.signals import UNCHANGED
from webcrawl.urls import normalize_seed
from webcrawl.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from scrapy.crawler import Crawler

    from webcrawl.crawl.job_state import JobState
    from webcrawl.frontier.view import Found
    from webcrawl.jobs.inspect.job_view import JobView
    from webcrawl.jobs.inspect.last_lines import LineFilter, OnProgress

# Limit of URLs in a list (0.2 kB each), and the number of those whose text is kept.
_MAX_DUE = 1 << 23
_MAX_NAMED = 10_000
_SHOWN = 20
_PROGRESS_EVERY = 10_000
_PUSH_SIZE = 1_000
_OLDER = "older-than"
# A URL, or a pattern of URLs, begins like this.
_PATTERN = re.compile(r"[\w+.-]*[:*?\[]")


class PutBack(msgspec.Struct):
    """Counts of URLs put back in line.

    *urls* were put back, or pushed to a hive. *waiting* were in line already, and *left_out* are
    ordinary Requests and URLs too long for the log. *unknown* are the URLs of a list that were
    never answered; only the first 10,000 are remembered.
    """

    urls: int = 0
    waiting: int = 0
    left_out: int = 0
    unknown: list[str] = []

    @property
    def in_words(self) -> str:
        """The counts in words."""
        if self == PutBack():
            return "0 URLs put back in line: the log has no such finished URLs"
        shown = " ".join(self.unknown[:_SHOWN])
        unknown = f"; {len(self.unknown):,} never answered: {shown}" if shown else ""
        left_out = f"left out: {self.left_out:,} (ordinary Requests and URLs too long for the log)"
        waiting = f"already waiting: {self.waiting:,}"
        put = f"{counted(self.urls, 'URL')} put back in line"
        return f"{put}; {waiting}; {left_out}{unknown}"


def given_up_with(text: str) -> LineFilter:
    """Select URLs that were given up with one of the outcomes in *text*, separated by commas.

    Raises FatalError if one is not an outcome of URLs that are given up.
    """
    names = {name.strip() for name in text.split(",")}
    unknown = next((name for name in sorted(names) if not is_given_up(name)), None)
    if unknown is not None:
        known = ", ".join(sorted(GIVEN_UP))
        raise FatalError(
            f"{unknown!r} is not an outcome of URLs that are given up; choose from {known}, and "
            "http_ with a status of at least 400."
        )
    return lambda line: line.outcome in names


def answered(words: Sequence[str]) -> LineFilter:
    """Select answered URLs by *words*: ``all``, ``older-than 7d``, or a URL pattern with ``*``.

    ``*`` stands for any text. Raises FatalError.
    """
    if words[0] == _OLDER:
        age = measured("AGE_SECS", words[1]) if len(words) > 1 else None
        if not isinstance(age, int | float):
            raise FatalError(f"{_OLDER} needs an age, such as 7d, 12h or 30min.")
        before = wall_time() - age
        return lambda line: _is_document(line) and line.at < before
    if words[0] == "all":
        return _is_document
    if not _PATTERN.match(words[0]):
        raise FatalError(
            f"{words[0]!r} is not a URL: use all, {_OLDER} AGE (such as 7d), or a URL pattern such "
            "as https://example.com/*."
        )
    matches = re.compile(fnmatch.translate(words[0])).match
    return lambda line: _is_document(line) and matches(line.url) is not None


class UrlList:
    """Selection of the answered URLs in *lines*. Raises FatalError if there are too many."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._names: dict[int, str] = {}
        self._answered: set[int] = set()
        for line in filter(None, map(str.strip, lines)):
            url = normalize_seed(line) or line
            self._names[digest(url)] = url if len(self._names) < _MAX_NAMED else ""
            if len(self._names) > _MAX_DUE:
                raise FatalError(f"The list has more than {_MAX_DUE:,} URLs: split it.")

    def __call__(self, line: OutcomeLine) -> bool:
        name = digest(line.url)
        if is_taken := _is_document(line) and name in self._names:
            self._answered.add(name)
        return is_taken

    def unknown(self) -> list[str]:
        """Return those of the first 10,000 URLs that were never answered."""
        return [url for name, url in self._names.items() if url and name not in self._answered]


def _is_document(line: OutcomeLine) -> bool:
    """Return whether the URL of *line* was answered, now or before."""
    return bool(line.visit) or line.outcome.startswith("http_")


def put_back(
    crawler: Crawler, selects: LineFilter, *, visits: bool, on_progress: OnProgress
) -> PutBack:
    """Put URLs back in line, in the stopped job of *crawler*'s settings.

    They are those whose last line *selects* accepts. With *visits* they are visited, otherwise
    tried again. *on_progress* is called with a count and its unit. Raises FatalError with one
    sentence.
    """
    jobdir = Path(crawler.settings["JOBDIR"])
    ask(jobdir, lambda _: None)  # FatalError if there is no crawl
    done = PutBack()
    with opened(crawler) as stopped:
        for entry in _due(jobdir, selects, done) if visits else ():
            stopped.state.shards.of(entry.url).frontier.requeue(entry)
            done.urls += 1
        for line in _last(jobdir, selects, done, on_progress, visits=visits):
            _requeue(stopped.state, line, visits=visits)
            done.urls += 1
            if done.urls % _PROGRESS_EVERY == 0:
                on_progress(done.urls, "URLs put back in line")
                stopped.state.shards.of(line.url).hosts.records.flush()
    return done


def push(
    jobdir: Path,
    selects: LineFilter,
    pushed: Callable[[list[bytes]], object],
    *,
    on_progress: OnProgress,
    encoded: Callable[[Entry], bytes] = visit_item,
) -> PutBack:
    """Push URLs to be visited to the crawl in *jobdir*, which may be running.

    They are selected as in ``put_back``. *pushed* is called with 1,000 at a time in the form
    *encoded*, by default as live seeds of a hive.
    """
    done, items = PutBack(), list[bytes]()
    lines = _last(jobdir, selects, done, on_progress, visits=True)
    others = (entry_of(line, "", rank=0, visits=True) for line in lines)
    for entry in chain(_due(jobdir, selects, done), others):
        items.append(encoded(entry))
        done.urls += 1
        if len(items) == _PUSH_SIZE:
            pushed(items)
            items.clear()
            on_progress(done.urls, "URLs pushed")
    if items:
        pushed(items)
    return done


def postpone_finished(crawler: Crawler, *, on_progress: OnProgress) -> PutBack:
    """Make the finished URLs of the stopped job of *crawler*'s settings due for a visit.

    REVISIT does this with URLs that are finished from now on. Raises FatalError with one sentence.
    """
    jobdir, visits, done = Path(crawler.settings["JOBDIR"]), Visits.from_crawler(crawler), PutBack()
    with opened(crawler) as stopped:
        for line in _last(jobdir, lambda _: True, done, on_progress, visits=False):
            shard, key = stopped.state.shards.of(line.url), stopped.state.rules.key_of(line.url)
            entry = entry_of(line, key, rank=shard.ranks.rank(key), visits=True)
            found = line.visit or visited(line.outcome)
            due = visits.next(entry, line.history, found, outcome=line.outcome, at=line.at)
            if due is not None:
                shard.frontier.postpone(*due)
                shard.frontier.count_answer(0.0, line.at)
                done.urls += 1
    return done


def _last(
    jobdir: Path, selects: LineFilter, done: PutBack, on_progress: OnProgress, *, visits: bool
) -> Iterator[OutcomeLine]:
    """Yield the last lines of URLs that do not wait and that *selects* accepts.

    The others are counted in *done*. With *visits*, due URLs are not: ``_due`` handles them.
    """
    logs = logs_of(jobdir)
    for numbers, names in last_lines(logs, selects, on_progress=on_progress):
        wait, due = ask(jobdir, _waiting) if len(names) else (names, names)
        waits, is_due = np.isin(names, wait), np.isin(names, due)
        done.waiting += int((waits & ~is_due if visits else waits | is_due).sum())
        for line in lines_at(logs, numbers[~(waits | is_due)]):
            if line.kind == "request" or len(line.url) >= MAX_URL:
                done.left_out += 1
            else:
                yield line
    if isinstance(selects, UrlList):
        done.unknown = selects.unknown()


def _waiting(view: JobView) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the digests of the URLs that wait in the frontier, and of those that are due."""
    found = {True: array("Q"), False: array("Q")}
    for one in _entries(view):
        found[one.queue.where is Where.DUE].append(digest(one.entry.url))
    return np.frombuffer(found[False], np.uint64), np.frombuffer(found[True], np.uint64)


def _entries(view: JobView) -> Iterator[Found]:
    for shard in view.shards:
        for one in shard.frontier.entries(shard.frontier.finished_keys()):
            if one.entry.kind not in NO_URLS:
                yield one


def _due(jobdir: Path, selects: LineFilter, done: PutBack) -> Iterator[Entry]:
    """Yield immediate visits of URLs that are due later and that *selects* accepts.

    They are marked like hints, so that the later visits know about them (revisit/hints.py). URLs
    that already wait are counted in *done*. Takes 0.2 kB of memory for each.
    """

    def selected(view: JobView) -> list[bytes]:
        visited = (one.entry for one in _entries(view) if one.queue.where is Where.DUE)
        return [encode(entry) for entry in visited if selects(_line_of(entry))]

    found, now = ask(jobdir, selected), int(wall_time())
    wait, _ = ask(jobdir, _waiting)
    names = np.array([digest(decode(data).url) for data in found], np.uint64)
    waits = np.isin(names, wait)
    done.waiting += int(waits.sum())
    for entry in map(decode, compress(found, ~waits)):
        known = replace(history_of(entry) or History(), hinted_at=now)
        yield replace(entry, history=encode_history(known))


def _line_of(entry: Entry) -> OutcomeLine:
    """Return a line for a due URL, with the fields that ``LineFilter`` reads."""
    at = (history_of(entry) or History()).at
    visit = UNCHANGED if at else ""
    return OutcomeLine(at=at, url=entry.url, host=entry.host, outcome="", form="", visit=visit)


def _requeue(state: JobState, line: OutcomeLine, *, visits: bool) -> None:
    key = state.rules.key_of(line.url)
    shard = state.shards.of(line.url)
    if not visits:
        shard.hosts.politeness.forgive(key, line.url)
        shard.hosts.robots.forgive(line.url)
    # After a power failure, the URL may be missing in the eliminator but not in the log.
    shard.eliminator.add(fingerprint(state.links.comparison_form(line.url)))
    entry = entry_of(line, key, rank=shard.ranks.rank(key), visits=visits)
    shard.frontier.requeue(entry, ended="" if entry.history else line.outcome)


def entry_of(line: OutcomeLine, key: str, *, rank: int, visits: bool) -> Entry:
    """Return the entry of a URL that ended as in *line* and has the politeness key *key*."""
    return Entry(
        url=line.url,
        host=key,
        depth=line.depth,
        rank=rank,
        via=line.via,
        kind=line.kind,
        discovered_at=wall_time(),
        # A failed visit is tried again as a visit.
        history=encode_history(line.history) if visits or line.visit else b"",
    )

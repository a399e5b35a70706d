"""Puts finished URLs back in line: ``scrapy frontier --retry``, ``--refetch`` and ``--due``.

URLs are selected by their *last* line in the log of finished URLs; those that already wait are left
out. The selected URLs go directly to the frontier and into its done log: the eliminator would drop
them, because it has seen them. If the process dies, run the command again to do the rest.

``--retry`` selects URLs that were given up, by outcome; their hosts are tried again even if they
failed often. ``--refetch`` and ``--due`` select answered URLs, which are visited again.

The log does not contain all fields of an entry. The number of links since the crawl entered the
host starts again at this URL, and the number of redirects at 0. Ordinary Requests of a spider are
left out, and so are URLs that were too long for the log.
"""

from __future__ import annotations

import fnmatch
import re
from array import array
from itertools import chain, compress, islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from webcrawl.clock import wall_time
from webcrawl.crawl.lease.outcome_log import GIVEN_UP, MAX_URL, OutcomeLine, is_given_up
from webcrawl.errors import FatalError
from webcrawl.frontier import NO_URLS, Entry, decode, encode
from webcrawl.frontier.view import Found, Where
from webcrawl.hive.bus.live_seeds import visit_item
from webcrawl.jobs.arguments import age, wrong
from webcrawl.jobs.inspect.job_view import JobView, ask
from webcrawl.jobs.inspect.last_lines import (
    LineFilter,
    OnProgress,
    digest,
    last_lines,
    lines_at,
    logs_of,
)
from webcrawl.jobs.inspect.stopped_job import open_stopped_job
from webcrawl.revisit.history import History, encode_history, history_of, visit_result
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

# Limit of the URLs in a list, each of which takes 0.2 kB, and of those whose text is kept.
_MAX_LISTED = 1 << 23
_MAX_REMEMBERED = 10_000
_MAX_SHOWN = 20
_PROGRESS_EVERY = 10_000
_PUSH_SIZE = 1_000
_OLDER = "older-than"
# HTTP has no such statuses, though some servers send them.
_NO_STATUS = re.compile("http_[6-9]")
# A URL, or a pattern of URLs, begins like this.
_PATTERN = re.compile(r"[\w+.-]*[:*?\[]")


class PutBack(msgspec.Struct):
    """Counts of URLs put back in line.

    *urls* were put back, or pushed to a hive. *waiting* were already in line, and *left_out* are
    ordinary Requests and URLs too long for the log. *unknown* has the URLs of a list that were
    never answered, as far as they are among its first 10,000.
    """

    urls: int = 0
    waiting: int = 0
    left_out: int = 0
    unknown: list[str] = []

    @property
    def in_words(self) -> str:
        """All counts in one sentence."""
        if self == PutBack():
            return "0 URLs put back in line: the log has no such finished URLs"
        shown = " ".join(self.unknown[:_MAX_SHOWN])
        unknown = f"; {len(self.unknown):,} never answered: {shown}" if shown else ""
        left_out = f"left out: {self.left_out:,} (ordinary Requests and URLs too long for the log)"
        waiting = f"already waiting: {self.waiting:,}"
        put_back = f"{counted(self.urls, 'URL')} put back in line"
        return f"{put_back}; {waiting}; {left_out}{unknown}"


def given_up_filter(text: str) -> LineFilter:
    """Return a filter for URLs given up with one of the outcomes in the comma-separated *text*.

    Raises FatalError if one of them is not an outcome of URLs that are given up.
    """
    names = {name.strip() for name in text.split(",")}
    wrong_names = (name for name in names if not is_given_up(name) or _NO_STATUS.match(name))
    unknown = min(wrong_names, default=None)
    if unknown is not None:
        known = ", ".join(sorted(GIVEN_UP))
        raise wrong(
            unknown,
            f"an outcome of URLs that are given up; choose from {known}, and http_ with a status "
            "from 400 to 599",
        )
    return lambda line: line.outcome in names


def answered_filter(words: Sequence[str]) -> LineFilter:
    """Return a filter for answered URLs, which the user described with *words*.

    They are ``all``, ``older-than 7d``, or a URL pattern in which ``*`` stands for any text. Raises
    FatalError for anything else.
    """
    if words[0] == _OLDER:
        before = wall_time() - age(words[1] if len(words) > 1 else "")
        return lambda line: _was_answered(line) and line.at < before
    if words[0] == "all":
        return _was_answered
    if not _PATTERN.match(words[0]):
        raise wrong(
            words[0],
            f"a URL: use all, {_OLDER} AGE (such as 7d), or a URL pattern such as "
            "https://example.com/*",
        )
    pattern = re.compile(fnmatch.translate(words[0]))
    return lambda line: _was_answered(line) and pattern.match(line.url) is not None


class UrlList:
    """Filter for the answered URLs among those in *lines*.

    Raises FatalError for too many lines, or if none is a URL.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        #: URLs by digest; "" for those whose text is not remembered.
        self._urls: dict[int, str] = {}
        #: Digests of the URLs that were answered.
        self._answered: set[int] = set()
        has_urls = False
        for line in filter(None, map(str.strip, lines)):
            normalized = normalize_seed(line)
            has_urls |= normalized is not None
            url = normalized or line
            self._urls[digest(url)] = url if len(self._urls) < _MAX_REMEMBERED else ""
            if len(self._urls) > _MAX_LISTED:
                raise FatalError(f"The list has more than {_MAX_LISTED:,} URLs: split it.")
        if not has_urls:
            raise FatalError("The list has no URLs.")

    def __call__(self, line: OutcomeLine) -> bool:
        url_digest = digest(line.url)
        if is_selected := _was_answered(line) and url_digest in self._urls:
            self._answered.add(url_digest)
        return is_selected

    def find_unanswered(self) -> list[str]:
        """Return which of the first 10,000 URLs were never answered."""
        return [
            url
            for url_digest, url in self._urls.items()
            if url and url_digest not in self._answered
        ]


def _was_answered(line: OutcomeLine) -> bool:
    """Return whether the URL of *line* was answered, this time or earlier."""
    return bool(line.visit) or line.outcome.startswith("http_")


def put_back(
    crawler: Crawler, line_filter: LineFilter, *, as_visit: bool, on_progress: OnProgress
) -> PutBack:
    """Put URLs back in line in the job of *crawler*'s settings, which must not be running.

    These are the URLs whose last line *line_filter* accepts. With *as_visit* they are visited
    again, otherwise retried. *on_progress* is called with a count and its unit. Raises FatalError
    with one sentence.
    """
    jobdir = Path(crawler.settings["JOBDIR"])
    ask(jobdir, lambda _: None)  # raises FatalError if there is no crawl
    counts = PutBack()
    with open_stopped_job(crawler) as stopped:
        for entry in _due_entries(jobdir, line_filter, counts) if as_visit else ():
            stopped.state.shards.of(entry.url).frontier.requeue(entry)
            counts.urls += 1
        for line in _idle_lines(jobdir, line_filter, counts, on_progress, as_visit=as_visit):
            _requeue(stopped.state, line, as_visit=as_visit)
            counts.urls += 1
            if counts.urls % _PROGRESS_EVERY == 0:
                on_progress(counts.urls, "URLs put back in line")
                stopped.state.shards.of(line.url).hosts.records.flush()
    return counts


def push(
    jobdir: Path,
    line_filter: LineFilter,
    send_batch: Callable[[list[bytes]], object],
    *,
    on_progress: OnProgress,
    encode_entry: Callable[[Entry], bytes] = visit_item,
) -> PutBack:
    """Push URLs to be visited again to the crawl in *jobdir*, which may be running.

    *line_filter* selects them by their last line, as in ``put_back``. *send_batch* is called with
    lists of up to 1,000 entries, encoded by *encode_entry*; by default they become live seeds of a
    hive. *on_progress* is called with a count and its unit.
    """
    counts = PutBack()
    due_entries = _due_entries(jobdir, line_filter, counts)
    idle_lines = _idle_lines(jobdir, line_filter, counts, on_progress, as_visit=True)
    idle_entries = (entry_of(line, "", rank=0, as_visit=True) for line in idle_lines)
    items = map(encode_entry, chain(due_entries, idle_entries))
    while batch := [*islice(items, _PUSH_SIZE)]:
        send_batch(batch)
        counts.urls += len(batch)
        on_progress(counts.urls, "URLs pushed")
    return counts


def postpone_finished(crawler: Crawler, *, on_progress: OnProgress) -> PutBack:
    """Schedule visits of all URLs that the job of *crawler*'s settings has finished.

    The job must not be running. With REVISIT, a crawl does this itself for each URL it finishes, so
    this is for older ones. *on_progress* is called with a count and its unit. Raises FatalError
    with one sentence.
    """
    jobdir = Path(crawler.settings["JOBDIR"])
    counts = PutBack()
    visits = Visits.from_crawler(crawler)
    with open_stopped_job(crawler) as stopped:
        for line in _idle_lines(jobdir, lambda _: True, counts, on_progress, as_visit=False):
            shard = stopped.state.shards.of(line.url)
            key = stopped.state.rules.key_of(line.url)
            entry = entry_of(line, key, rank=shard.ranks.rank(key), as_visit=True)
            result = line.visit or visit_result(line.outcome)
            due = visits.next(entry, line.history, result, outcome=line.outcome, at=line.at)
            if due is not None:
                shard.frontier.leases.postpone(*due)
                shard.frontier.counts.answer(0.0, line.at)  # as a crawl with REVISIT does
                counts.urls += 1
    return counts


def _idle_lines(
    jobdir: Path,
    line_filter: LineFilter,
    counts: PutBack,
    on_progress: OnProgress,
    *,
    as_visit: bool,
) -> Iterator[OutcomeLine]:
    """Yield the last line of each URL that is not in line, if *line_filter* accepts that line.

    URLs that wait or are due, and those left out, are counted in *counts*. With *as_visit*, due
    URLs are not counted, because ``_due_entries`` does that.
    """
    logs = logs_of(jobdir)
    for numbers, digests in last_lines(logs, line_filter, on_progress=on_progress):
        # Without lines there is nothing to look for in the queues.
        waiting, due = ask(jobdir, _waiting_digests) if len(digests) else (digests, digests)
        is_waiting = np.isin(digests, waiting)
        is_due = np.isin(digests, due)
        # Those to be counted here. All that wait or are due are left out below.
        in_line = is_waiting & ~is_due if as_visit else is_waiting | is_due
        counts.waiting += int(in_line.sum())
        for line in lines_at(logs, numbers[~(is_waiting | is_due)]):
            if line.kind == "request" or len(line.url) >= MAX_URL:
                counts.left_out += 1
            else:
                yield line
    if isinstance(line_filter, UrlList):
        counts.unknown = line_filter.find_unanswered()


def _waiting_digests(view: JobView) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the digests of the URLs that wait in the frontier, and of those that are due."""
    waiting = array("Q")
    due = array("Q")
    for found in _entries(view):
        digests = due if found.queue.where is Where.DUE else waiting
        digests.append(digest(found.entry.url))
    return np.frombuffer(waiting, np.uint64), np.frombuffer(due, np.uint64)


def _entries(view: JobView) -> Iterator[Found]:
    """Yield the entries of all unfinished URLs, from every queue."""
    for shard in view.shards:
        for found in shard.frontier.entries(shard.frontier.finished_keys()):
            if found.entry.kind not in NO_URLS:
                yield found


def _due_entries(jobdir: Path, line_filter: LineFilter, counts: PutBack) -> Iterator[Entry]:
    """Yield an entry for an immediate visit of each due URL that *line_filter* accepts.

    Due URLs are those with a visit scheduled for later. The entries are marked like hints, so that
    the later visits know about them (revisit/hints.py). URLs that already wait are counted in
    *counts*. Takes 0.2 kB of memory per URL.
    """

    def select(view: JobView) -> list[bytes]:
        due = (found.entry for found in _entries(view) if found.queue.where is Where.DUE)
        return [encode(entry) for entry in due if line_filter(_line_of(entry))]

    # All are kept until the view is closed; encoded entries take the least memory.
    encoded_entries = ask(jobdir, select)
    now = int(wall_time())
    waiting, _ = ask(jobdir, _waiting_digests)
    digests = np.array([digest(decode(data).url) for data in encoded_entries], np.uint64)
    is_waiting = np.isin(digests, waiting)
    counts.waiting += int(is_waiting.sum())
    for entry in map(decode, compress(encoded_entries, ~is_waiting)):
        history = replace(history_of(entry) or History(), hinted_at=now)
        yield replace(entry, history=encode_history(history))


def _line_of(entry: Entry) -> OutcomeLine:
    """Return a log line for the due URL of *entry*, with the fields that filters read."""
    at = (history_of(entry) or History()).at
    # A URL with an earlier visit counts as answered, and this result says so.
    visit = UNCHANGED if at else ""
    return OutcomeLine(at=at, url=entry.url, host=entry.host, outcome="", form="", visit=visit)


def _requeue(state: JobState, line: OutcomeLine, *, as_visit: bool) -> None:
    """Put the URL of *line* back in line: to visit it again if *as_visit*, else to retry it."""
    key = state.rules.key_of(line.url)
    shard = state.shards.of(line.url)
    if not as_visit:
        # A URL to be retried was given up, often because its host failed. With these failures
        # still on record, it would be given up again without a request.
        shard.hosts.politeness.forgive(key, line.url)
        shard.hosts.robots.forgive(line.url)
    # After a power failure, the log may have URLs that the eliminator does not know.
    shard.eliminator.add(fingerprint(state.links.comparison_form(line.url)))
    entry = entry_of(line, key, rank=shard.ranks.rank(key), as_visit=as_visit)
    # Only entries of visits have a history; without *as_visit*, that is the retry of a failed one.
    is_visit = bool(entry.history)
    # The URL's new outcome replaces the one that was counted when it ended. A visit replaces
    # nothing, because the results of visits are counted apart from the outcomes.
    shard.frontier.requeue(entry, ended="" if is_visit else line.outcome)


def entry_of(line: OutcomeLine, key: str, *, rank: int, as_visit: bool) -> Entry:
    """Return an entry for the URL of *line*, which has the politeness key *key*.

    The entry asks for a visit if *as_visit* or if *line* is from a visit.
    """
    return Entry(
        url=line.url,
        host=key,
        depth=line.depth,
        rank=rank,
        via=line.via,
        kind=line.kind,
        discovered_at=wall_time(),
        # A failed visit is retried as a visit.
        history=encode_history(line.history) if as_visit or line.visit else b"",
    )

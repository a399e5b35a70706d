"""What a lease is for: the questions whose answers depend on the kind of its entry.

The life of a lease, and who asks what::

    Dispatcher    begin      is it still wanted, refused, or answered from the disk?
                  review     what the rules of the host decided about it
                  prepare    the Request for the contact, or that it ends without one
    Intake        accept     the response, in the callback of a link
    Completion    finish     log its outcome, and say what the frontier has to know
                  note_end   the frontier has finished it

One object serves all leases of its kinds. The kind is a string in the entry, because entries are
on disk; `Tasks` is the only place that looks a task up by it. A new kind of lease is one module
here, and its registration in leases.py.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from scrapy import Request
from scrapy.http import Response

from webcrawl.crawl.lease.fetch import Fetch
from webcrawl.crawl.shard.shard import Shard
from webcrawl.crawl.task.renderer import StoredPage
from webcrawl.frontier import Entry, Lease, Result
from webcrawl.hosts.politeness.preconditions import Decision
from webcrawl.items import Page


class Way(enum.Enum):
    """The ways in which a lease can be completed: what happens next to its URL."""

    FINISH = "it is finished, with an outcome"
    RETRY = "it is retried, after the other URLs of its host"
    PUT_BACK = "it produced no result, and is next in line for its host"
    PARK = "it waits on disk for a reason"
    DROP = "it is no longer needed"


class Ending(NamedTuple):
    """How a lease ends for which nothing is sent.

    *why* is the outcome of a finished URL, or the reason of a parked one.
    """

    way: Way
    why: str = ""


class Finish(NamedTuple):
    """What the frontier has to know of a finished entry: its result, and its successor if any.

    *due* is the next visit, and *retry* the next try of a URL that is not finished yet.
    """

    result: Result
    due: tuple[Entry, float] | None = None
    retry: Entry | None = None


class Task:
    """What the leases of some kinds are for. All methods raise OSError when the disk is full.

    Subclasses define at least ``begin``, ``prepare`` and ``finish``.
    """

    #: Whether the URL is a page or a part of one: it uses budgets and tries, and its owner may
    #: limit its use.
    is_for_page = False
    #: Whether robots.txt decides about the URL.
    obeys_robots = True

    def begin(self, lease: Lease[Shard]) -> Ending | StoredPage | None:
        """Return how *lease* ends before its host is asked for, or what answers instead of it.

        DROP means that it is no longer wanted, None that the host decides.
        """
        raise NotImplementedError

    def review(self, lease: Lease[Shard], decision: Decision) -> Decision:
        """Return *decision*, which the rules of the host made, or a stricter one."""
        return decision

    def prepare(self, fetch: Fetch) -> Request | Ending | None:
        """Return the Request for the contact *fetch*, bound to it.

        If ``fetch.refusal`` is set, nothing is sent, and a Request is only returned if somebody
        waits for its failure. None means that the engine has the Request already.
        """
        raise NotImplementedError

    async def accept(self, response: Response, fetch: Fetch) -> list[Page] | AsyncIterator[Page]:
        """Take *response*, to a Request without a callback; return Pages for the modules."""
        return []

    def finish(
        self, lease: Lease[Shard], outcome: str, fetch: Fetch | None, robots_line: str
    ) -> Finish:
        """Log *outcome* of *lease*, whose last contact was *fetch*, if it had one.

        *robots_line* is the line of robots.txt that denied the URL, if one did. Called before the
        frontier finishes the URL, so that each finished URL has a line in the log.
        """
        raise NotImplementedError

    def note_end(self, lease: Lease[Shard], way: Way, why: str) -> None:
        """Forget *lease*, whose entry is finished: FINISH with the outcome *why*, RETRY or DROP."""

    def drop(self, shard: Shard, entry: Entry) -> None:
        """Log that *entry*, which was parked in *shard*, is dropped."""


@dataclass(frozen=True)
class Tasks:
    """The tasks by kind. An entry of any other kind is a *page*: its kind says how it was found."""

    page: Task
    others: Mapping[str, Task]

    def of(self, entry: Entry) -> Task:
        """Return the task of *entry*."""
        return self.others.get(entry.kind, self.page)

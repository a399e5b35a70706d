"""States of crawls, shards, hosts and URLs: the words for them, with a reason and until when.

One vocabulary for logs, commands and metrics.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from webcrawl.configuration.decoding import Seconds  # noqa: TC001  # msgspec reads it


class CrawlState(StrEnum):
    """What a process of a crawl does."""

    #: It reads all seeds before it contacts anyone.
    STARTING = "starting"
    RUNNING = "running"
    #: No host is contacted, though URLs wait.
    PAUSED = "paused"
    #: Nothing is left but what may come: visits, seeds, links from other drones.
    WAITING = "waiting"
    STOPPING = "stopping"
    #: It has ended, with nothing left to fetch, or before.
    FINISHED = "finished"
    STOPPED = "stopped"


class ShardState(StrEnum):
    """Whether a shard of a process hands out URLs."""

    #: Its seeds are read first.
    STARTING = "starting"
    RUNNING = "running"
    #: It goes to another process.
    LEAVING = "leaving"


class HostState(StrEnum):
    """What is true of a host for its next contact."""

    READY = "ready"
    RESTING = "resting"
    IN_PROCESS = "in process"
    #: Its parts have clocks of their own.
    IN_PARTS = "in parts"
    #: Nothing was asked of it, and no URL of it waits.
    UNKNOWN = "unknown"


class UrlState(StrEnum):
    """Where a URL is in its life."""

    #: In a queue of the frontier.
    WAITING = "waiting"
    #: Being fetched, or processed.
    LEASED = "leased"
    #: Held back by a gate: a budget, a trap.
    PARKED = "parked"
    #: In the duplicate URL eliminator.
    UNDECIDED = "undecided"
    FINISHED = "finished"
    #: Finished, and to be visited again.
    DUE = "due"
    #: Known to the eliminator, without a line in the log.
    SEEN = "seen"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """State of something, with its reason.

    *name* is one of those above; it lasts *until* then, epoch seconds, if that is known.
    """

    name: str
    reason: str = ""
    until: Seconds = 0.0

    def told(self, moment: str = "") -> str:
        """The state in words; *moment* is *until* as the reader has it.

        >>> State("resting", "Crawl-delay 20", 9.0).told("14:02:11")
        'resting until 14:02:11: Crawl-delay 20'
        """
        until = f" until {moment}" if self.until and moment else ""
        return f"{self.name}{until}" + (f": {self.reason}" if self.reason else "")

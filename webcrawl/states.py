"""States of crawls, shards, hosts and URLs, each with a reason and an end.

Logs, commands and metrics all use these names.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from webcrawl.configuration.decoding import Seconds  # msgspec reads it


class CrawlState(StrEnum):
    """State of a process of a crawl."""

    #: All seeds are read before the first request.
    STARTING = "starting"
    RUNNING = "running"
    #: No host is contacted although URLs are waiting.
    PAUSED = "paused"
    #: The crawl waits until visits are due, or until seeds or links from other drones arrive.
    WAITING = "waiting"
    STOPPING = "stopping"
    #: Ended with nothing left to fetch.
    FINISHED = "finished"
    #: Ended with URLs left to fetch.
    STOPPED = "stopped"


class ShardState(StrEnum):
    """State of a shard of a process."""

    #: Its seeds are still being read.
    STARTING = "starting"
    RUNNING = "running"
    #: It is being moved to another process.
    LEAVING = "leaving"


class HostState(StrEnum):
    """Why a host is or is not ready for its next request."""

    READY = "ready"
    #: The pause after its last request is not over.
    PAUSED = "paused"
    IN_PROCESS = "in process"
    #: Each of its parts has its own pause.
    IN_PARTS = "in parts"
    #: None of its URLs is fetched, because of a command or a file.
    EXCLUDED = "excluded"
    #: Its URLs are finished, or were never requested because of failures.
    IDLE = "nothing waits"
    #: It was never contacted, and none of its URLs is waiting or finished.
    UNKNOWN = "unknown"


class UrlState(StrEnum):
    """State of a URL in its life cycle."""

    #: In a queue of the frontier.
    WAITING = "waiting"
    #: Being fetched or processed.
    LEASED = "leased"
    #: Waiting on disk because of a budget or a trap.
    PARKED = "parked"
    #: In the duplicate URL eliminator, which has not checked yet whether it is new.
    UNDECIDED = "undecided"
    FINISHED = "finished"
    #: Finished, and to be visited again.
    DUE = "due"
    #: Known to the eliminator, but not in the log.
    SEEN = "seen"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    """State of a crawl, shard, host or URL, with its reason.

    *name* is one of the states above. *until* is when it ends (epoch seconds; 0 if not known).
    """

    name: str
    reason: str = ""
    until: Seconds = 0.0

    def in_words(self, moment: str = "") -> str:
        """Return the state in words; *moment* is *until* in the reader's time format.

        >>> State("paused", "Crawl-delay 20", 9.0).in_words("14:02:11")
        'paused until 14:02:11: Crawl-delay 20'
        """
        until = f" until {moment}" if self.until and moment else ""
        return f"{self.name}{until}" + (f": {self.reason}" if self.reason else "")

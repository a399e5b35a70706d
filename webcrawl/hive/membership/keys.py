"""The names of what a hive has in Redis.

All keys but the streams have the hive's name in braces, so they share one hash slot of a Redis
Cluster and one script can take a step over all of them. Each stream is for itself, so that a
cluster spreads them over its nodes.
"""

from __future__ import annotations

from typing import Final

_PREFIX = "webcrawl"


class Keys:
    """The keys of the hive *name*, which has no braces in it."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        common = f"{_PREFIX}:{{{name}}}"
        #: Hash: number of a shard -> "token drone", the drone "" if it was released.
        self.shards: Final = f"{common}:shards"
        #: Hash: drone -> its last report.
        self.drones: Final = f"{common}:drones"
        #: String with expiry: the drone that is the queen.
        self.queen: Final = f"{common}:queen"
        #: Hash: what is true of the whole hive, the fields of `report.State`.
        self.state: Final = f"{common}:state"
        #: Hash: number of a shard -> "ID token-sequence": ID in its stream up to which its
        #: published checkpoint has all, and which that was.
        self.acks: Final = f"{common}:acks"
        #: The prefix of the keys of all leases.
        self.leases: Final = f"{common}:lease:"
        #: Hash: number -> a command to the hive, see control/hive.py.
        self.commands: Final = f"{common}:commands"

    def answers(self, command: int) -> str:
        """Hash with expiry: drone -> its answer to the *command* with that number."""
        return f"{self.commands}:{command}"

    def lease(self, drone: str) -> str:
        """A string with expiry, there as long as *drone* is alive."""
        return self.leases + drone

    def stream(self, shard: int) -> str:
        """The stream of what was sent to *shard*."""
        return f"{_PREFIX}:{self.name}:links:{shard:02d}"


def order_of(stream_id: str) -> tuple[int, int]:
    """The sort key of an ID of a stream. ValueError if *stream_id* is none."""
    milliseconds, _, number = stream_id.partition("-")
    return int(milliseconds), int(number)


def after(stream_id: str) -> str:
    """The least ID that is higher than *stream_id*."""
    milliseconds, number = order_of(stream_id)
    return f"{milliseconds}-{number + 1}"

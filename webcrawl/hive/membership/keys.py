"""Names of a hive's keys in Redis.

All keys except the streams have the hive's name in braces, so they share one hash slot of a Redis
Cluster, and one script can use all of them. Streams do not, so that a cluster spreads them over its
nodes.
"""

from __future__ import annotations

from typing import Final

_PREFIX = "webcrawl"


class Keys:
    """Keys of the hive *name*, which has no braces in it."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        common = f"{_PREFIX}:{{{name}}}"
        #: Hash: number of a shard -> "token drone", the drone "" if it was released.
        self.shards: Final = f"{common}:shards"
        #: Hash: drone -> its last report.
        self.drones: Final = f"{common}:drones"
        #: String with expiry: the drone that is the queen.
        self.queen: Final = f"{common}:queen"
        #: Hash: state of the whole hive, the fields of ``report.HiveState``.
        self.state: Final = f"{common}:state"
        #: Hash: number of a shard -> "ID token-sequence": the ID up to which its published
        #: checkpoint has the stream, and the checkpoint.
        self.acks: Final = f"{common}:acks"
        #: The prefix of the keys of all leases.
        self.leases: Final = f"{common}:lease:"
        #: Hash: number -> a command to the hive, see control/hive.py.
        self.commands: Final = f"{common}:commands"

    def answers(self, command: int) -> str:
        """Return the key of a hash with expiry: drone -> its answer to the *command*."""
        return f"{self.commands}:{command}"

    def lease(self, drone: str) -> str:
        """Return the key of a string with expiry that exists while *drone* is alive."""
        return self.leases + drone

    def stream(self, shard: int) -> str:
        """Return the key of the stream of messages to *shard*."""
        return f"{_PREFIX}:{self.name}:links:{shard:02d}"


def order_of(stream_id: str) -> tuple[int, int]:
    """Return the sort key of a stream ID. ValueError if *stream_id* is not valid."""
    milliseconds, _, number = stream_id.partition("-")
    return int(milliseconds), int(number)


def after(stream_id: str) -> str:
    """Return the lowest ID above *stream_id*."""
    milliseconds, number = order_of(stream_id)
    return f"{milliseconds}-{number + 1}"

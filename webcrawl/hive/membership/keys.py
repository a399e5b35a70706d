"""Names of the keys of a hive in Redis.

All keys except those of streams have the hive's name in braces: until 0.5, a Redis Cluster needed
that, and the names stay the same.
"""

from __future__ import annotations

_PREFIX = "webcrawl"


class Keys:
    """The keys of the hive *name*, which must not contain braces."""

    def __init__(self, name: str) -> None:
        self.name = name
        common = f"{_PREFIX}:{{{name}}}"
        #: Hash: number of a shard -> "token drone"; the drone is "" if the shard was released.
        self.shards = f"{common}:shards"
        #: Hash: drone -> its last report.
        self.drones = f"{common}:drones"
        #: String with expiry: the name of the drone that is the queen.
        self.queen = f"{common}:queen"
        #: Hash: state of the whole hive, the fields of ``report.HiveState``.
        self.state = f"{common}:state"
        #: Hash: number of a shard -> "ID token-sequence": the last stream ID that is in its
        #: published checkpoint, and the key of that checkpoint.
        self.acks = f"{common}:acks"
        #: The prefix of the keys of all leases.
        self.leases = f"{common}:lease:"
        #: Hash: number -> command to the hive; see control/hive.py.
        self.commands = f"{common}:commands"

    def answers(self, command: int) -> str:
        """Return the key of the answers to *command*, a hash with expiry: drone -> its answer."""
        return f"{self.commands}:{command}"

    def lease(self, drone: str) -> str:
        """Return the key of a string with expiry that exists while *drone* is alive: its lease."""
        return self.leases + drone

    def stream(self, shard: int) -> str:
        """Return the key of the stream with the messages to *shard*."""
        return f"{_PREFIX}:{self.name}:links:{shard:02d}"


def stream_id_key(stream_id: str) -> tuple[int, int]:
    """Return the sort key of *stream_id*: its milliseconds and number. ValueError if invalid."""
    milliseconds, _, number = stream_id.partition("-")
    return int(milliseconds), int(number)


def after(stream_id: str) -> str:
    """Return the lowest stream ID above *stream_id*."""
    milliseconds, number = stream_id_key(stream_id)
    return f"{milliseconds}-{number + 1}"

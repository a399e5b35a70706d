"""What drones say of themselves with each beat, and what is true of the whole hive.

A `Report` is a drone's, in msgpack with names, so that drones of different versions read each
other's: a field that is missing has its default, one that is not known is passed over. The `State`
is a hash in Redis, in words. Times are epoch seconds; those of the state are by Redis' clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping


class DroneFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A drone in its report, for people: nothing is decided by it."""

    #: Of its job, in all runs: pages, and URLs given up.
    pages: int = 0
    given_up: int = 0
    #: Pages per second, of late.
    rate: float = 0.0
    #: URLs in its frontiers; contacts and pages under way.
    waiting: int = 0
    in_process: int = 0
    #: Bytes in its outboxes that were not sent yet; seconds that what came last was in Redis.
    unsent: int = 0
    lag: float = 0.0
    #: Why it has little to do, in words.
    hindrance: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A drone's state at one beat."""

    #: Of the beat: it grows with each.
    number: int = 0
    #: The shards that it has claimed, with their tokens.
    leases: dict[int, int] = {}
    #: Whether none of them has work, all outboxes are sent and no seeds are left to read.
    idle: bool = False
    #: It grows with each batch sent and each batch received.
    activity: int = 0
    #: Of each shard that it has adopted, the ID in its stream up to which it has read.
    positions: dict[int, str] = {}
    #: The least supply of its shards (`frontier.supply.Supply`), and the reputation round it is of.
    supply: int = 0
    round: int = 0
    #: The round since which admitted URLs are counted.
    counted_since: int = 0
    figures: DroneFigures = DroneFigures()


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What is true of the whole hive; all but the first three are the queen's orders."""

    #: A random word of this Redis' data: another one, or "", when Redis lost them.
    born: str = ""
    born_at: float = 0.0
    #: HIVE_SHARDS.
    shards: int = 0
    #: Of the last checkpoint that all drones were to make.
    checkpoint: int = 0
    #: How many shards a drone should hold at most; 0: not decided yet.
    share: int = 0
    #: The least supply of all shards, and the reputation round that all are in.
    supply: int = 0
    round: int = 0
    counted_since: int = 0
    #: The crawl has ended. Drones end with a checkpoint.
    finished: bool = False
    #: The crawl is to be stopped. Drones end with a checkpoint.
    stopping: bool = False


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Report)


def encode_report(report: Report) -> bytes:
    return _encoder.encode(report)


def decode_report(data: bytes) -> Report | None:
    """None for what is no report."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError:
        return None


def encode_state(fields: Mapping[str, Any]) -> dict[str, str]:
    """*fields* of a State as they are in Redis. TypeError for what is no field."""
    if unknown := fields.keys() - set(State.__struct_fields__):
        raise TypeError(f"no fields of the state: {', '.join(sorted(unknown))}")
    return {name: str(int(value) if value is True or value is False else value)
            for name, value in fields.items()}  # fmt: skip


def decode_state(fields: Mapping[str, str]) -> State:
    """The other way; msgspec.ValidationError for a value that is none."""
    return msgspec.convert(fields, State, strict=False)

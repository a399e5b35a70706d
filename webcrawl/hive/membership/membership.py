"""Which drone holds which shard: leases in Redis, with fencing tokens.

A drone has one lease, a key with expiry that its beats renew. The hash of shards says for each
shard who holds it and by which token; that is a lease of the shard, good as long as its holder's
lease lives. Each claim of a shard has a larger token than those before it: the microseconds of its
time, or one more than the token before. So it has in a Redis that lost some or all of its data,
too. The queen is the drone whose name is in a key with expiry, which its beats renew as well.

Each step is one Lua script over keys of one hash slot, so it is atomic. Scripts are sent in full:
they are short, and a server that was started again knows none. A step that fails with one of
`connection.UNREACHABLE` may have been taken or not; the next beat shows it.

Each change of the table of shards gives it a new random version, in the same script. A beat names
the version that the drone has, and its answer has the table only if there is another, or if the
drone's lease had ended: then others may have taken its shards.

What cannot be read is counted and logged. A state is made again, as in a Redis that was emptied.
The holder of a shard writes its row again; a row that is still there after a lease is removed.

A Redis whose memory is full of links refuses what takes memory, or all of a script that begins with
it. Each script here begins with a deletion, of nothing: beats, and acknowledgements, which make
room, must not wait for room.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from redis.exceptions import ResponseError

from webcrawl.clock import now
from webcrawl.configuration.decoding import MOST
from webcrawl.hive.membership.connection import UNREACHABLE, RedisClient, servers
from webcrawl.hive.membership.keys import after, order_of
from webcrawl.hive.membership.report import (
    HiveState,
    Report,
    decode_report,
    decode_state,
    encode_report,
    encode_state,
)
from webcrawl.randomness import random_hex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from webcrawl.hive.membership.keys import Keys

logger = logging.getLogger(__name__)

_Row = TypeVar("_Row")

# No answer for this share of a lease is a failure: there is time for another try.
_PATIENCE = 0.25

# Before each script; the first key of all is a hash.
_DELETION = "redis.call('HDEL', KEYS[1], '')\n"

_FOUND = """
local state, drones = KEYS[1], KEYS[2]
local born, shards, leases = ARGV[1], ARGV[2], ARGV[3]
local time = redis.call('TIME')
local now = time[1] .. string.format('.%06d', time[2])
if redis.call('HSETNX', state, 'born', born) == 1 then
  redis.call('HSET', state, 'born_at', now, 'shards', shards)
end
local living = 0
for _, drone in ipairs(redis.call('HKEYS', drones)) do
  living = living + redis.call('EXISTS', leases .. drone)
end
if living == 0 then
  redis.call('HDEL', state, 'finished', 'stopping', 'share')
  redis.call('HSET', state, 'begun_at', now)
end
return redis.call('HGETALL', state)
"""

# What a beat and a look answer.
_ALL = """
local alive = {}
for _, drone in ipairs(redis.call('HKEYS', drones)) do
  if redis.call('EXISTS', leases .. drone) == 1 then
    table.insert(alive, drone)
  elseif beats then
    redis.call('HDEL', drones, drone)
  end
end
local reports = {}
if wants_reports then
  reports = redis.call('HGETALL', drones)
end
local version = redis.call('HGET', state, 'version')
local owners = false
if had_lease == 0 or not version or version ~= known then
  owners = redis.call('HGETALL', shards)
end
return {
  redis.call('TIME'), queen, redis.call('HGETALL', state), version, owners,
  redis.call('HGETALL', acks), alive, reports, had_lease
}
"""

_BEAT = """
local shards, drones, queen_key, state, acks, lease = unpack(KEYS)
local me, milliseconds, report, leases, known = unpack(ARGV)
local had_lease = redis.call('EXISTS', lease)
redis.call('SET', lease, 1, 'PX', milliseconds)
redis.call('HSET', drones, me, report)
local queen = redis.call('GET', queen_key)
if not queen or queen == me or redis.call('EXISTS', leases .. queen) == 0 then
  redis.call('SET', queen_key, me, 'PX', milliseconds)
  queen = me
end
local wants_reports, beats = queen == me, true
""" + _ALL  # fmt: skip

_LOOK = """
local shards, drones, queen_key, state, acks = unpack(KEYS)
local leases, known = ARGV[1], ''
local queen = redis.call('GET', queen_key) or ''
local wants_reports, beats, had_lease = true, false, 0
""" + _ALL  # fmt: skip

# The version goes first: what fails between the two must not leave another table under the old one.
_SET_OWNER = """
local shards, state, lease = unpack(KEYS)
local me, version = ARGV[1], ARGV[2]
local function set_owner(shard, owner)
  redis.call('HSET', state, 'version', version)
  redis.call('HSET', shards, shard, owner)
end
"""

_REGISTER = _SET_OWNER + """
local accepted = {}
for i = 3, #ARGV, 2 do
  local shard, token = ARGV[i], ARGV[i + 1]
  local mine = token .. ' ' .. me
  local held = redis.call('HGET', shards, shard)
  local known = held and tonumber(string.match(held, '^%d+'))
  if not held or held == mine or not known or known < tonumber(token) then
    set_owner(shard, mine)
    table.insert(accepted, shard)
  end
end
return accepted
"""  # fmt: skip

_CLAIM = _SET_OWNER + """
local leases = ARGV[3]
local claimed = {}
if redis.call('HEXISTS', state, 'born') == 0 or redis.call('EXISTS', lease) == 0 then
  return claimed
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for i = 4, #ARGV, 3 do
  local shard, token, drone = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local held = redis.call('HGET', shards, shard)
  local is_free = drone == '' or drone == me or redis.call('EXISTS', leases .. drone) == 0
  if not held or (held == token .. ' ' .. drone and is_free) then
    token = string.format('%.0f', math.max(tonumber(token) + 1, now))
    set_owner(shard, token .. ' ' .. me)
    table.insert(claimed, shard)
    table.insert(claimed, token)
  end
end
return claimed
"""  # fmt: skip

_RELEASE = _SET_OWNER + """
for i = 3, #ARGV, 2 do
  local shard, token = ARGV[i], ARGV[i + 1]
  if redis.call('HGET', shards, shard) == token .. ' ' .. me then
    set_owner(shard, token .. ' ')
  end
end
"""  # fmt: skip

_ACKNOWLEDGE = """
local accepted = {}
for i = 2, #ARGV, 3 do
  local shard, token, position = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if redis.call('HGET', KEYS[1], shard) == token .. ' ' .. ARGV[1] then
    redis.call('HSET', KEYS[2], shard, position)
    table.insert(accepted, shard)
  end
end
return accepted
"""

# Of the queen, or of '': anyone.
_ORDER = """
local me, queen = ARGV[1], redis.call('GET', KEYS[2])
if (me ~= '' and me ~= queen) or redis.call('HEXISTS', KEYS[1], 'born') == 0 then
  return 0
end
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
return 1
"""

_LEAVE = """
local drones, queen, lease = unpack(KEYS)
redis.call('DEL', lease)
redis.call('HDEL', drones, ARGV[1])
if redis.call('GET', queen) == ARGV[1] then
  redis.call('DEL', queen)
end
"""


class Owner(NamedTuple):
    """The token of a shard's last claim, and the drone that holds it, "" if it was released."""

    token: int
    drone: str


class Beat(NamedTuple):
    """The hive at one moment."""

    #: Epoch seconds by Redis' clock.
    now: float
    #: The drone that is the queen; "" if there is none.
    queen: str
    is_queen: bool
    state: HiveState
    #: The shards of the drone itself, with their tokens.
    leases: dict[int, int]
    #: Of each shard that was ever held in this Redis.
    owners: dict[int, Owner]
    #: The drones that have a lease.
    alive: frozenset[str]
    #: Of each shard, the ID in its stream up to which a published checkpoint has all.
    acks: dict[int, str]
    #: The (token, sequence) of that checkpoint; (0, 0) where a drone of before 2026-11-24 gave it.
    acknowledged: dict[int, tuple[int, int]]
    #: Those of the drones that are alive; of a beat only for the queen. None: one that cannot be
    #: read, of another version.
    reports: dict[str, Report | None]
    #: The data, and the server processes that have had them without a break: as long as it stays
    #: the same, IDs of streams mean the same. "" of a look.
    incarnation: str = ""
    #: Of a beat: when it began, by the clock of the process, and whether the drone had a lease.
    began: float = 0.0
    had_lease: bool = False


class Membership:
    """The part of *drone*, a name without spaces, in a hive.

    What a call changes it changes in one atomic step. All raise one of UNREACHABLE after a quarter
    of a lease at the latest, or after the *secs* that they are given.
    """

    def __init__(self, *, client: RedisClient, keys: Keys, drone: str, lease_secs: float) -> None:
        self._client = client
        self._keys = keys
        self._drone = drone
        self._lease_secs = lease_secs
        # The table of shards as the last beat had it.
        self._version = b""
        self._owners: dict[int, Owner] = {}
        #: Fields that could not be read; a state is one.
        self.unreadable = 0
        # Those that cannot be read now, with their keys, and since when.
        self._damaged: dict[tuple[str, bytes], float] = {}

    async def found(self, shards: int, *, secs: float | None = None) -> HiveState:
        """Make the hive's state if there is none; the one that is there.

        Where no drone is alive a run begins, which is neither finished nor stopping. Leases are not
        waited for: a drone of the crawl before that was killed is alive for up to a lease.
        """
        fields = await self._run(
            _FOUND,
            [self._keys.state, self._keys.drones],
            random_hex("membership"),
            shards,
            self._keys.leases,
            secs=secs,
        )
        state = _state(fields)
        if state.born:
            return state
        self._note(self._keys.state, fields)
        await self._client.execute_command("DEL", self._keys.state)
        return await self.found(shards, secs=secs)

    async def beat(self, report: Report) -> Beat:
        """Renew the drone's lease and store its *report*; what there is in the hive.

        The drone becomes the queen if there is none. In an empty Redis the state's ``born`` is "":
        ``found`` and ``register`` then. Leases are good for HIVE_LEASE_SECS from before the call.
        """
        began = now()
        async with asyncio.timeout(self._lease_secs * _PATIENCE):
            answer = await self._run(
                _BEAT,
                [*self._common(), self._keys.lease(self._drone)],
                self._drone,
                round(self._lease_secs * 1000),
                encode_report(report),
                self._keys.leases,
                self._version,
            )
            # After the acks were read: what gave their IDs has been there all the time.
            names = await servers(self._client)
            beat = self._read(answer)
            for (key, name), since in [*self._damaged.items()]:
                self._version = b""  # the table is read again
                if now() >= since + self._lease_secs:
                    await self._client.execute_command("HDEL", key, name)
                    del self._damaged[key, name]
        return beat._replace(incarnation=f"{beat.state.born} {names}", began=began)

    async def renew(self) -> bool:
        """Renew the drone's lease if it is still there; whether it was."""
        async with asyncio.timeout(self._lease_secs * _PATIENCE):
            key, milliseconds = self._keys.lease(self._drone), round(self._lease_secs * 1000)
            return bool(await self._client.execute_command("PEXPIRE", key, milliseconds))

    async def look(self, *, secs: float | None = None) -> Beat:
        """The same without taking part, with all reports: for who only wants to know."""
        return self._read(await self._run(_LOOK, self._common(), self._keys.leases, secs=secs))

    async def register(self, leases: Mapping[int, int]) -> dict[int, int]:
        """In a new Redis: enter *leases*, shards with their tokens. Those accepted: where nothing
        newer was there."""
        accepted = await self._set_owners(_REGISTER, *chain(*leases.items()))
        return {number: leases[number] for number in map(int, accepted)}

    async def claim(self, wanted: Mapping[int, Owner]) -> dict[int, int]:
        """Take over shards, each from the *wanted* owner; those taken, with their new tokens.

        A shard is taken if that is still its owner, and released it, or has no lease any more, or
        is this drone itself, which gets a new token then. Of a shard that Redis knows nothing of,
        the token is the one of its newest checkpoint, 0 if there is none. None are taken by a drone
        without a lease. A claim whose answer was lost shows in the leases of the next beat.
        """
        triples = [part for shard, owner in wanted.items() for part in (shard, *owner)]
        claimed = await self._set_owners(_CLAIM, self._keys.leases, *triples)
        return {int(shard): int(token) for shard, token in _hash(claimed).items()}

    async def release(self, leases: Mapping[int, int]) -> None:
        """Give up *leases*, shards with their tokens; those of others are left alone."""
        await self._set_owners(_RELEASE, *chain(*leases.items()))

    async def _set_owners(self, script: str, *arguments: str | int) -> Any:
        keys = [self._keys.shards, self._keys.state, self._keys.lease(self._drone)]
        return await self._run(script, keys, self._drone, random_hex("membership"), *arguments)

    async def acknowledge(
        self, positions: Mapping[int, str], leases: Mapping[int, int], sequences: Mapping[int, int]
    ) -> set[int]:
        """Say that published checkpoints, of these *sequences*, have all of the shards' streams up
        to *positions*.

        Accepted are those shards that are the drone's by the token in *leases*. Their streams are
        cut there, now or with the next acknowledgement. The entry of the position goes, too: a
        stream that is read again from its beginning would bring its visits and Requests once more,
        of which the eliminator does not know.
        """
        triples = [
            part
            for shard, position in positions.items()
            if shard in leases
            for part in (shard, leases[shard], f"{position} {leases[shard]}-{sequences[shard]}")
        ]
        keys = [self._keys.shards, self._keys.acks]
        accepted = set(map(int, await self._run(_ACKNOWLEDGE, keys, self._drone, *triples)))
        with contextlib.suppress(*UNREACHABLE):
            await self._each(
                ("XTRIM", self._keys.stream(shard), "MINID", after(positions[shard]))
                for shard in sorted(accepted)
            )
        return accepted

    async def last_ids(self, shards: Iterable[int]) -> dict[int, str]:
        """The ID of the last entry in each stream; "0-0" for one that is not there, or of which all
        was acknowledged."""
        wanted = sorted(shards)
        answers = await self._each(
            ("XINFO", "STREAM", self._keys.stream(shard)) for shard in wanted
        )
        return {shard: _last_id(answer) for shard, answer in zip(wanted, answers, strict=True)}

    async def order(self, *, anyone: bool = False, **fields: Any) -> bool:
        """Set *fields* of the state, if the drone is the queen, or *anyone* may; whether that was
        done."""
        pairs = chain(*encode_state(fields).items())
        keys = [self._keys.state, self._keys.queen]
        return bool(await self._run(_ORDER, keys, "" if anyone else self._drone, *pairs))

    async def stop(self) -> bool:
        """Have all drones end with a checkpoint; whether there is such a hive. Anyone may."""
        return await self.order(anyone=True, stopping=True)

    async def leave(self) -> None:
        """End the drone's lease, and with it those of all its shards."""
        keys = [self._keys.drones, self._keys.queen, self._keys.lease(self._drone)]
        await self._run(_LEAVE, keys, self._drone)

    def _common(self) -> list[str]:
        keys = self._keys
        return [keys.shards, keys.drones, keys.queen, keys.state, keys.acks]

    async def _run(
        self,
        script: str,
        keys: Sequence[str],
        *arguments: str | bytes | int,
        secs: float | None = None,
    ) -> Any:
        async with asyncio.timeout(secs or self._lease_secs * _PATIENCE):
            return await self._client.execute_command(
                "EVAL", _DELETION + script, len(keys), *keys, *arguments
            )

    async def _each(self, commands: Iterable[tuple[str, ...]]) -> list[Any]:
        """The answers to *commands* on one key each, in one round trip to each node."""
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        async with asyncio.timeout(self._lease_secs * _PATIENCE):
            return await pipeline.execute(raise_on_error=False)

    def _read(self, answer: list[Any]) -> Beat:
        (seconds, microseconds), queen, fields, version, shards, *answer = answer
        acks, alive, reports, had_lease = answer
        state = _state(fields)
        if shards is not None:
            self._version = version or b""
            self._owners = self._rows(self._keys.shards, shards, state, _owner)
        owners = self._owners
        acknowledged = self._rows(self._keys.acks, acks, state, _acknowledged)
        living = frozenset(map(_text, alive))
        return Beat(
            now=int(seconds) + int(microseconds) / 1e6,
            queen=_text(queen),
            is_queen=_text(queen) == self._drone,
            state=state,
            leases={
                shard: owner.token for shard, owner in owners.items() if owner.drone == self._drone
            },
            owners=owners,
            alive=living,
            acks={shard: position for shard, (position, _) in acknowledged.items()},
            acknowledged={shard: checkpoint for shard, (_, checkpoint) in acknowledged.items()},
            reports={
                _text(drone): decode_report(report)
                for drone, report in zip(reports[::2], reports[1::2], strict=True)
                if _text(drone) in living
            },
            had_lease=bool(had_lease),
        )

    def _rows(
        self, key: str, flat: list[bytes], state: HiveState, read: Callable[[str], _Row]
    ) -> dict[int, _Row]:
        """Read the hash *key* with *read*; returns the values by shard."""
        rows: dict[int, _Row] = {}
        for name, value in zip(flat[::2], flat[1::2], strict=True):
            with contextlib.suppress(ValueError):
                number, row = int(name), read(value.decode())
                if 0 <= number < (state.shards or MOST):
                    self._damaged.pop((key, name), None)
                    rows[number] = row
                    continue
            if (key, name) not in self._damaged:
                self._damaged[key, name] = now()
                self._note(key, name)
        return rows

    def _note(self, key: str, what: object) -> None:
        self.unreadable += 1
        logger.warning("What cannot be read in Redis is refused: %.80r of %s", what, key)


def _state(flat: list[bytes]) -> HiveState:
    """Return the state in Redis, or that of an empty Redis if it cannot be read."""
    try:
        return decode_state(_hash(flat))
    except ValueError:
        return HiveState()


def _hash(flat: list[bytes]) -> dict[str, str]:
    return {
        name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)
    }


def _owner(value: str) -> Owner:
    token, _, drone = value.partition(" ")
    if not 0 <= int(token) <= MOST:
        raise ValueError("no token")
    return Owner(int(token), drone)


def _acknowledged(value: str) -> tuple[str, tuple[int, int]]:
    """The ID and the checkpoint."""
    position, _, checkpoint = value.partition(" ")
    order_of(position)
    token, _, sequence = checkpoint.partition("-")
    return position, (int(token or 0), int(sequence or 0))


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def _last_id(answer: Any) -> str:
    if isinstance(answer, ResponseError) and "no such key" in str(answer):
        return "0-0"
    if isinstance(answer, Exception):
        raise answer
    fields = dict(zip(answer[::2], answer[1::2], strict=True))
    last: bytes = fields[b"last-generated-id"]
    return last.decode() if fields[b"length"] else "0-0"

"""Leases in Redis, with fencing tokens: which drone holds which shard.

A drone has one lease, a key with expiry that its heartbeats renew. The hash of shards stores the
holder and token of each shard. This is a lease on the shard, valid as long as the lease of its
holder. Each claim of a shard gets a larger token than all claims before it: the time in
microseconds, or one more than the last token. This holds even if Redis has lost some or all of its
data. The queen is the drone whose name is in another key with expiry, which its heartbeats also
renew.

Each step is one Lua script, so it is atomic. Scripts are sent in full, because they are short, and
a restarted server does not have them. A step that fails with one of ``connection.UNREACHABLE`` may
or may not have been carried out; the next heartbeat shows which.

Each change of the tables of shards and acknowledgements sets a new random version in the same
script. A heartbeat sends the version that the drone knows. The answer contains the tables only if
the version differs, or if the drone's lease had expired, because other drones may then have claimed
its shards.

Unreadable values are counted and logged. An unreadable state is created again, as in an emptied
Redis. The holder of a shard writes its row again. A row that is still unreadable after a lease time
is removed.

A Redis whose memory is full of links refuses commands that need memory, and whole scripts that
begin with one. So each script here begins with a deletion (of nothing). Heartbeats must not wait
for memory, and neither must acknowledgements, which free memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from redis.asyncio import Redis

from webcrawl.clock import now
from webcrawl.configuration.decoding import MOST
from webcrawl.hive.membership.connection import UNREACHABLE
from webcrawl.hive.membership.keys import Keys, after, stream_id_key
from webcrawl.hive.membership.report import (
    HiveState,
    Report,
    decode_report,
    decode_state,
    encode_report,
    encode_state,
)
from webcrawl.randomness import random_hex

logger = logging.getLogger(__name__)

_Row = TypeVar("_Row")

# The timeout of a call, as a share of a lease, so that there is time for another try.
_TIMEOUT_SHARE = 0.25

# Put in front of each script; the first key of every script is a hash. It deletes nothing.
_PREFIX = """
local call = redis.call
call('HDEL', KEYS[1], '')
local function server_id()
  return string.match(call('INFO', 'server'), 'run_id:(%x+)')
end
"""

# Creates the state if there is none, and begins a new run if no drone is alive.
_ENTER_SCRIPT = """
local state, drones = KEYS[1], KEYS[2]
local born, shards, leases, lease_secs = unpack(ARGV)
local time = call('TIME')
local now = time[1] .. string.format('.%06d', time[2])
if call('HSETNX', state, 'born', born) == 1 then
  call('HSET', state, 'born_at', now, 'shards', shards)
end
local living = 0
for _, drone in ipairs(call('HKEYS', drones)) do
  living = living + call('EXISTS', leases .. drone)
end
if living == 0 then
  call('HDEL', state, 'finished', 'stopping', 'share')
  call('HSET', state, 'begun_at', now, 'lease_secs', lease_secs)
end
return call('HGETALL', state)
"""

# The end of the scripts for ``beat`` and ``look``, which returns the state of the hive.
_STATE_ANSWER = """
local names, keys, alive, reports = call('HKEYS', drones), {}, {}, {}
for i, drone in ipairs(names) do
  keys[i] = leases .. drone
end
for i, lease in ipairs(#keys > 0 and call('MGET', unpack(keys)) or {}) do
  if lease then
    table.insert(alive, names[i])
  elseif beats then
    call('HDEL', drones, names[i])
  end
end
if wants_reports then
  reports = call('HGETALL', drones)
end
local version, owners, acknowledged = call('HGET', state, 'version'), false, false
if had_lease == 0 or not version or version ~= known then
  owners, acknowledged = call('HGETALL', shards), call('HGETALL', acks)
end
return {
  call('TIME'), queen, call('HGETALL', state), version, owners, acknowledged,
  alive, reports, had_lease, server_id()
}
"""

_BEAT_SCRIPT = """
local shards, drones, queen_key, state, acks, lease = unpack(KEYS)
local me, milliseconds, report, leases, known, begun_at = unpack(ARGV)
-- In an older copy of the data, orders to end are those of an earlier run.
if (tonumber(call('HGET', state, 'begun_at')) or math.huge) < tonumber(begun_at) then
  call('HDEL', state, 'finished', 'stopping')
  call('HSET', state, 'begun_at', begun_at)
end
local had_lease = call('EXISTS', lease)
call('SET', lease, 1, 'PX', milliseconds)
call('HSET', drones, me, report)
local queen = call('GET', queen_key)
if not queen or queen == me or call('EXISTS', leases .. queen) == 0 then
  call('SET', queen_key, me, 'PX', milliseconds)
  queen = me
end
local wants_reports, beats = queen == me, true
""" + _STATE_ANSWER  # fmt: skip

_LOOK_SCRIPT = """
local shards, drones, queen_key, state, acks = unpack(KEYS)
local leases, known = ARGV[1], ''
local queen = call('GET', queen_key) or ''
local wants_reports, beats, had_lease = true, false, 0
""" + _STATE_ANSWER  # fmt: skip

# Defines a function that changes a row of a table. It sets the version first, because a failure
# between the two must not leave a changed table under the old version.
_SET_ROW = """
local shards, state, lease, acks = unpack(KEYS)
local me, version = ARGV[1], ARGV[2]
local function set_row(table_key, shard, value)
  call('HSET', state, 'version', version)
  call('HSET', table_key, shard, value)
end
"""

# Registers shards with their tokens, unless a shard has a newer token.
_REGISTER_SCRIPT = _SET_ROW + """
local accepted = {}
for i = 3, #ARGV, 2 do
  local shard, token = ARGV[i], ARGV[i + 1]
  local mine = token .. ' ' .. me
  local held = call('HGET', shards, shard)
  local known = held and tonumber(string.match(held, '^%d+'))
  if not held or held == mine or not known or known < tonumber(token) then
    set_row(shards, shard, mine)
    table.insert(accepted, shard)
  end
end
return accepted
"""  # fmt: skip

# Claims shards that still have the given owner, if that owner no longer has a lease.
_CLAIM_SCRIPT = _SET_ROW + """
local leases, newest, incarnation = ARGV[3], ARGV[4], ARGV[5]
local claimed = {}
local born = call('HGET', state, 'born')
if not born or call('EXISTS', lease) == 0 then
  return claimed
end
if incarnation ~= '' and incarnation ~= born .. ' ' .. server_id() then
  return claimed
end
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
for i = 6, #ARGV, 3 do
  local shard, token, drone = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local held = call('HGET', shards, shard)
  local is_free = drone == '' or drone == me or call('EXISTS', leases .. drone) == 0
  if not held or (held == token .. ' ' .. drone and is_free) then
    token = string.format('%.0f', math.max(tonumber(token) + 1, newest + 1, now))
    set_row(shards, shard, token .. ' ' .. me)
    table.insert(claimed, shard)
    table.insert(claimed, token)
  end
end
return claimed
"""  # fmt: skip

# Releases shards that the drone holds by the given tokens, for another drone or any.
_RELEASE_SCRIPT = _SET_ROW + """
local taker = ARGV[3]
for i = 4, #ARGV, 2 do
  local shard, token = ARGV[i], ARGV[i + 1]
  if call('HGET', shards, shard) == token .. ' ' .. me then
    set_row(shards, shard, token .. ' ' .. taker)
  end
end
"""  # fmt: skip

# Releases all shards that the drone holds, whatever their tokens are.
_RELEASE_ALL_SCRIPT = _SET_ROW + """
for _, shard in ipairs(call('HKEYS', shards)) do
  local token, drone = string.match(call('HGET', shards, shard), '^(%d+) (.*)$')
  if drone == me then
    set_row(shards, shard, token .. ' ')
  end
end
"""  # fmt: skip

# Stores the positions of shards that the drone holds by the given tokens.
_ACKNOWLEDGE_SCRIPT = _SET_ROW + """
local accepted = {}
for i = 3, #ARGV, 3 do
  local shard, token, position = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if call('HGET', shards, shard) == token .. ' ' .. me then
    set_row(acks, shard, position)
    table.insert(accepted, shard)
  end
end
return accepted
"""  # fmt: skip

# Sets fields of the state, if the drone is the queen, or its name is ''.
_ORDER_SCRIPT = """
local me, queen = ARGV[1], call('GET', KEYS[2])
if (me ~= '' and me ~= queen) or call('HEXISTS', KEYS[1], 'born') == 0 then
  return 0
end
call('HSET', KEYS[1], unpack(ARGV, 2))
return 1
"""


class Owner(NamedTuple):
    """The last claim of a shard: its token, and the drone that holds it, "" if it was released."""

    token: int
    drone: str


class Beat(NamedTuple):
    """Answer to a heartbeat or a look: the state of the hive at one moment."""

    #: The time by Redis' clock, in epoch seconds.
    now: float
    #: The name of the queen; "" if there is none.
    queen: str
    is_queen: bool
    state: HiveState
    #: The shards of this drone, with their tokens.
    leases: dict[int, int]
    #: The owner of each shard that was ever held, as far as this Redis knows.
    owners: dict[int, Owner]
    #: The drones that have a lease.
    alive: frozenset[str]
    #: By shard, the last ID of its stream that is in a published checkpoint.
    acks: dict[int, str]
    #: By shard, the (token, sequence) of that checkpoint; (0, 0) if an earlier version wrote it
    #: (before 2026-11-24).
    acknowledged: dict[int, tuple[int, int]]
    #: The reports of living drones, only for the queen's heartbeat and a look. A report is None if
    #: it cannot be read, because another version wrote it.
    reports: dict[str, Report | None]
    #: Identifies the data, and the server process that has held it without a break. Stream IDs
    #: keep their meaning as long as this stays the same.
    incarnation: str = ""
    #: When the heartbeat began, by the clock of the process, and whether the drone had a lease.
    began: float = 0.0
    had_lease: bool = False

    @property
    def members(self) -> set[str]:
        """The drones that have a lease or own shards.

        One that owns shards without a lease was killed, or is cut off from Redis and may still
        contact hosts.
        """
        return {*self.alive, *(owner.drone for owner in self.owners.values())} - {""}


class Membership:
    """Gives *drone* access to the state of a hive in Redis: a name without spaces, "" for a user.

    *client* is connected to that Redis, *keys* are the hive's keys there. A lease of the drone
    lasts *lease_secs*.

    Each method makes its changes in one atomic step. All raise one of UNREACHABLE after at most a
    quarter of a lease, or after *secs* if given.
    """

    def __init__(self, *, client: Redis, keys: Keys, drone: str, lease_secs: float) -> None:
        self._client = client
        self._keys = keys
        self._drone = drone
        self._lease_secs = lease_secs
        # The tables in the last answer that had them, and their version.
        self._version = b""
        # When the run began, according to the last answer.
        self._begun_at = 0.0
        self._owners: dict[int, Owner] = {}
        self._acknowledged: dict[int, tuple[str, tuple[int, int]]] = {}
        #: How many values could not be read; a whole state counts as one.
        self.unreadable = 0
        # Since when fields have been unreadable, by the key of their hash and their name.
        self._damaged: dict[tuple[str, bytes], float] = {}

    async def enter(self, shards: int, *, secs: float | None = None) -> HiveState:
        """Return the hive's state, for a drone that joins. Creates a hive of *shards* if needed.

        If no drone is alive, a new run begins, which is neither finished nor stopping. This does
        not wait for leases: a killed drone of the last run counts as alive for up to a lease time.
        """
        fields = await self._run_script(
            _ENTER_SCRIPT,
            [self._keys.state, self._keys.drones],
            random_hex("membership"),
            shards,
            self._keys.leases,
            self._lease_secs,
            secs=secs,
        )
        state = _decode_state(fields)
        # The script gives each state a ``born``; only an unreadable one is decoded without it.
        if state.born:
            return state

        # The stored state cannot be read, so the hive is created again.
        self._log_unreadable(self._keys.state, fields)
        await self._client.execute_command("DEL", self._keys.state)
        return await self.enter(shards, secs=secs)

    async def beat(self, report: Report) -> Beat:
        """Renew the drone's lease, store its *report*, and return the state of the hive.

        The drone becomes the queen if there is none. In an empty Redis, the ``born`` of the state
        is ""; then call ``enter`` and ``register``. Leases are valid for HIVE_LEASE_SECS from the
        start of the call.
        """
        started_at = now()
        async with asyncio.timeout(self._lease_secs * _TIMEOUT_SHARE):
            answer = await self._run_script(
                _BEAT_SCRIPT,
                [*self._state_keys(), self._keys.lease(self._drone)],
                self._drone,
                round(self._lease_secs * 1000),
                encode_report(report),
                self._keys.leases,
                self._version,
                self._begun_at,
            )
            beat = self._decode_answer(answer)
            # The holder of a shard writes its row again. What it has not mended within a lease time
            # is deleted.
            for (key, field), unreadable_since in [*self._damaged.items()]:
                self._version = b""  # the tables are read again
                if now() >= unreadable_since + self._lease_secs:
                    await self._client.execute_command("HDEL", key, field)
                    del self._damaged[key, field]
        return beat._replace(began=started_at)

    async def renew(self) -> bool:
        """Renew the drone's lease if it still exists, and return whether it existed."""
        async with asyncio.timeout(self._lease_secs * _TIMEOUT_SHARE):
            key = self._keys.lease(self._drone)
            milliseconds = round(self._lease_secs * 1000)
            return bool(await self._client.execute_command("PEXPIRE", key, milliseconds))

    async def look(self, *, secs: float | None = None) -> Beat:
        """Return the state of the hive with all reports; the caller need not be a drone."""
        return self._decode_answer(
            await self._run_script(_LOOK_SCRIPT, self._state_keys(), self._keys.leases, secs=secs)
        )

    async def register(self, leases: Mapping[int, int]) -> dict[int, int]:
        """Register *leases*, shards with their tokens, which Redis has lost.

        Returns the accepted ones, those of shards that have no newer token.
        """
        accepted = await self._set_rows(_REGISTER_SCRIPT, *chain(*leases.items()))
        return {number: leases[number] for number in map(int, accepted)}

    async def claim(
        self, wanted: Mapping[int, Owner], newest: int = 0, incarnation: str = ""
    ) -> dict[int, int]:
        """Claim the shards in *wanted*, and return the claimed ones with their new tokens.

        *wanted* has the last known owner of each shard. A shard can be claimed if it still has that
        owner, and the owner released it, has no lease any more, or is this drone, which then gets a
        new token. For a shard that Redis does not know, the owner has the token of its newest
        checkpoint, or 0. The new tokens are larger than *newest*. A drone without a lease cannot
        claim any shard, and nothing is claimed if the heartbeat that has shown the owners came from
        another *incarnation*, as Redis may have lost later claims. A claim whose answer was lost
        shows in the leases of the next heartbeat.
        """
        # The script gets three arguments for each shard: its number, and the token and drone of its
        # owner.
        arguments = [argument for shard, owner in wanted.items() for argument in (shard, *owner)]
        claimed = await self._set_rows(
            _CLAIM_SCRIPT, self._keys.leases, newest, incarnation, *arguments
        )
        return {int(shard): int(token) for shard, token in _decode_hash(claimed).items()}

    async def release(self, leases: Mapping[int, int], *, taker: str = "") -> None:
        """Give up *leases*, shards with their tokens. Shards of other drones are left alone.

        The drone *taker* finds them among the leases of its next heartbeat, and claims them. If it
        has no lease, or is "", any drone can.
        """
        await self._set_rows(_RELEASE_SCRIPT, taker, *chain(*leases.items()))

    async def release_all(self) -> None:
        """Give up all shards that this drone holds, including those of its last process."""
        await self._set_rows(_RELEASE_ALL_SCRIPT)

    async def _set_rows(self, script: str, *arguments: str | int) -> Any:
        """Run *script*, which changes a table, and return its answer."""
        keys = self._keys
        return await self._run_script(
            script,
            [keys.shards, keys.state, keys.lease(self._drone), keys.acks],
            self._drone,
            random_hex("membership"),
            *arguments,
        )

    async def acknowledge(
        self, positions: Mapping[int, str], leases: Mapping[int, int], sequences: Mapping[int, int]
    ) -> set[int]:
        """Record that published checkpoints contain the shards' streams up to *positions*.

        *sequences* has the sequence number of each checkpoint. Returns the accepted shards, those
        that the drone holds by the token in *leases*. Their streams are trimmed up to the position,
        now or with the next acknowledgement. The entry at the position is also deleted. If it were
        read again, its visits and Requests would be repeated, because the eliminator does not know
        them.
        """
        # The script gets three arguments for each shard: its number, token and new value.
        arguments = [
            argument
            for shard, position in positions.items()
            if shard in leases
            for argument in (shard, leases[shard], f"{position} {leases[shard]}-{sequences[shard]}")
        ]
        accepted = set(map(int, await self._set_rows(_ACKNOWLEDGE_SCRIPT, *arguments)))
        with contextlib.suppress(*UNREACHABLE):
            await self._run_pipeline(
                ("XTRIM", self._keys.stream(shard), "MINID", after(positions[shard]))
                for shard in sorted(accepted)
            )
        return accepted

    async def has_unread(self, positions: Mapping[int, str]) -> bool:
        """Return whether the stream of any shard has an entry after its ID in *positions*."""
        answers = await self._run_pipeline(
            ("XRANGE", self._keys.stream(shard), f"({position}", "+", "COUNT", "1")
            for shard, position in positions.items()
        )
        return any(answers)  # an error counts as one

    async def order(self, **fields: Any) -> bool:
        """Set *fields* of the hive's state, and return whether they were set.

        They are set only for the queen, or for a user, whose name as a drone is "".
        """
        pairs = chain(*encode_state(fields).items())
        keys = [self._keys.state, self._keys.queen]
        return bool(await self._run_script(_ORDER_SCRIPT, keys, self._drone, *pairs))

    async def leave(self) -> None:
        """End the drone's lease, and with it those of all its shards.

        The next heartbeat of another drone deletes its report, and replaces it if it is the queen.
        """
        async with asyncio.timeout(self._lease_secs * _TIMEOUT_SHARE):
            await self._client.execute_command("DEL", self._keys.lease(self._drone))

    def _state_keys(self) -> list[str]:
        """Return the keys that the scripts for ``beat`` and ``look`` use."""
        keys = self._keys
        return [keys.shards, keys.drones, keys.queen, keys.state, keys.acks]

    async def _run_script(
        self,
        script: str,
        keys: Sequence[str],
        *arguments: str | bytes | float,
        secs: float | None = None,
    ) -> Any:
        """Run the Lua *script* with *keys* and *arguments*, and return its answer."""
        async with asyncio.timeout(secs or self._lease_secs * _TIMEOUT_SHARE):
            return await self._client.execute_command(
                "EVAL", _PREFIX + script, len(keys), *keys, *arguments
            )

    async def _run_pipeline(self, commands: Iterable[tuple[str, ...]]) -> list[Any]:
        """Send *commands* in one round trip, and return the answers."""
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        async with asyncio.timeout(self._lease_secs * _TIMEOUT_SHARE):
            return await pipeline.execute(raise_on_error=False)

    def _decode_answer(self, answer: list[Any]) -> Beat:
        """Decode the answer of the scripts for ``beat`` and ``look``."""
        (seconds, microseconds), queen, fields, version, shards, *answer = answer
        acks, alive, reports, had_lease, server = answer
        state = _decode_state(fields)
        self._begun_at = state.begun_at
        # The tables are only sent if one has changed since the last answer.
        if shards is not None:
            self._version = version or b""
            self._owners = self._decode_rows(self._keys.shards, shards, state, _decode_owner)
            self._acknowledged = self._decode_rows(
                self._keys.acks, acks, state, _decode_acknowledged
            )
        owners = self._owners
        acknowledged = self._acknowledged
        living = frozenset(map(_decode_name, alive))
        return Beat(
            now=int(seconds) + int(microseconds) / 1e6,
            queen=_decode_name(queen),
            is_queen=_decode_name(queen) == self._drone,
            state=state,
            leases={
                shard: owner.token for shard, owner in owners.items() if owner.drone == self._drone
            },
            owners=owners,
            alive=living,
            acks={shard: position for shard, (position, _) in acknowledged.items()},
            acknowledged={shard: checkpoint for shard, (_, checkpoint) in acknowledged.items()},
            reports={
                _decode_name(drone): decode_report(report)
                for drone, report in zip(reports[::2], reports[1::2], strict=True)
                if _decode_name(drone) in living
            },
            incarnation=f"{state.born} {server.decode()}",
            had_lease=bool(had_lease),
        )

    def _decode_rows(
        self, key: str, pairs: list[bytes], state: HiveState, decode_value: Callable[[str], _Row]
    ) -> dict[int, _Row]:
        """Decode *pairs*, the rows of the hash *key*, and return the values by shard.

        *decode_value* decodes one value. Rows that cannot be read are logged and left out.
        """
        rows: dict[int, _Row] = {}
        for name, value in zip(pairs[::2], pairs[1::2], strict=True):
            with contextlib.suppress(ValueError):
                number = int(name)
                row = decode_value(value.decode())
                # If the state cannot be read either, the number of shards is unknown.
                if 0 <= number < (state.shards or MOST):
                    self._damaged.pop((key, name), None)
                    rows[number] = row
                    continue
            if (key, name) not in self._damaged:
                self._damaged[key, name] = now()
                self._log_unreadable(key, name)
        return rows

    def _log_unreadable(self, key: str, value: object) -> None:
        """Count and log an unreadable *value* of the hash *key*."""
        self.unreadable += 1
        logger.warning("Ignored an unreadable value in Redis: %.80r of %s", value, key)


def _decode_state(flat_pairs: list[bytes]) -> HiveState:
    """Decode the state of a hive, as that of an empty Redis if it cannot be read."""
    try:
        return decode_state(_decode_hash(flat_pairs))
    except ValueError:
        return HiveState()


def _decode_hash(flat_pairs: list[bytes]) -> dict[str, str]:
    """Decode *flat_pairs*, alternating names and values, as Redis returns a hash."""
    return {
        name.decode(): value.decode()
        for name, value in zip(flat_pairs[::2], flat_pairs[1::2], strict=True)
    }


def _decode_owner(value: str) -> Owner:
    """Parse a row of the table of shards. ValueError if it is invalid."""
    token, _, drone = value.partition(" ")
    if not 0 <= int(token) <= MOST:
        raise ValueError("not a valid token")
    return Owner(int(token), drone)


def _decode_acknowledged(value: str) -> tuple[str, tuple[int, int]]:
    """Parse a stream ID and the (token, sequence) of a checkpoint. ValueError if invalid."""
    position, _, checkpoint = value.partition(" ")
    stream_id_key(position)
    token, _, sequence = checkpoint.partition("-")
    return position, (int(token or 0), int(sequence or 0))


def _decode_name(name: bytes) -> str:
    return name.decode("utf-8", "replace")

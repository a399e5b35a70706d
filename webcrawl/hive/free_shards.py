"""Free shards: those that a drone may claim, because no other living drone holds them.

drone.py explains when that is the case. Redis says who has a lease on a shard; HIVE_STORE says who
holds it while Redis lacks something, by the heartbeats in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from webcrawl.clock import now
from webcrawl.hive.membership.membership import Beat, Owner
from webcrawl.hive.parts import DroneParts


class FreeShards:
    """Finds the shards that the drone with *parts* may claim."""

    def __init__(self, parts: DroneParts) -> None:
        self._name = parts.name
        self._holding = parts.holding
        self._store = parts.store
        # The last heartbeats in the store, by drone and content, and since when each is there.
        self._beats_since: dict[tuple[str, str], float] = {}
        # Shards that Redis does not know, by (``born``, number), and since when.
        self._unregistered_since: dict[tuple[str, int], float] = {}

    async def find(self, beat: Beat, unrecorded: Mapping[int, int]) -> dict[int, Owner]:
        """Return the shards that may be claimed, each with its last owner.

        *unrecorded* has the tokens of leases that Redis has for this drone but the drone does not.
        """
        if now() < self._holding.settled_at:
            return {}
        owners = self._find_unheld(beat)
        owners |= {number: Owner(token, self._name) for number, token in unrecorded.items()}
        return await self._omit_living(owners)

    def _find_unheld(self, beat: Beat) -> dict[int, Owner]:
        """Return the shards that no living drone holds, each with its last owner."""
        state = beat.state
        holding = self._holding
        if not holding.is_redis_complete and abs(beat.now - state.born_at) < holding.lease_secs:
            return {}  # living drones have not registered their shards yet
        owners = {number: beat.owners.get(number, Owner(0, "")) for number in range(state.shards)}
        unknown = owners.keys() - beat.owners.keys()
        keys = [(state.born, number) for number in unknown]
        self._unregistered_since = {key: self._unregistered_since.get(key, now()) for key in keys}

        # Drones that have a lease in Redis register all that they hold. So a shard that no drone
        # has registered for the time of a lease is not held. Neither is one that only a drone
        # without a lease held, or only the previous process of this drone.
        departed = {owner.drone for owner in owners.values()} - beat.alive | {self._name}
        overdue_since = now() - holding.lease_secs
        unheld = {n for (_, n), since in self._unregistered_since.items() if since < overdue_since}
        # If Redis has lost the row of a shard, its holder registers the shard again.
        lost = unknown & beat.acknowledged.keys()
        unheld |= {number for number in owners.keys() - lost if owners[number].drone in departed}
        free = {number: owners[number] for number in unheld - holding.leases.keys()}
        # While its own lease is not steady, a drone cannot tell that the leases of others expired.
        if not holding.is_steady:
            own = ("", self._name)
            free = {number: owner for number, owner in free.items() if owner.drone in own}
        return free

    async def _omit_living(self, owners: dict[int, Owner]) -> dict[int, Owner]:
        """Return *owners* without the shards of drones that still send heartbeats to the store.

        Redis may have lost the last claims of such a drone.
        """
        if not owners:
            return {}
        beats = await asyncio.to_thread(self._store.heartbeats)
        self._beats_since = {beat: self._beats_since.get(beat, now()) for beat in beats.items()}
        # A drone is alive if its heartbeat changed within the time of a lease.
        alive_since = now() - self._holding.lease_secs
        living = {
            drone: beat
            for (drone, beat), since in self._beats_since.items()
            if since > alive_since and drone != self._name
        }
        held = {number for beat in living.values() for number in beat.split()[1:]}
        return {
            number: owner
            for number, owner in owners.items()
            if owner.drone not in living and str(number) not in held
        }

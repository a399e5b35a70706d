"""Aliases as shown to users: hosts whose site is crawled under another name (hosts/aliases.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from webcrawl.configuration.decoding import UndecodableError, msgpack_decoder
from webcrawl.hosts.aliases import Alias
from webcrawl.hosts.host_rules import HostRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from webcrawl.jobs.inspect.job_view import ShardView


class _Snapshot(msgspec.Struct, array_like=True):
    """First fields of ``AliasSnapshot``."""

    version: int
    aliases: dict[str, Alias]


_decode = msgpack_decoder(_Snapshot)


class AliasRow(NamedTuple):
    """Row of the table of aliases."""

    name: str
    leading: str
    saved: int
    checked: int
    said: str


def aliases_of(shard: ShardView) -> Mapping[str, Alias]:
    """Return the aliases in the checkpoint of *shard* by name; none if they cannot be read."""
    snapshot = shard.state.snapshots.get("aliases")
    try:
        return _decode(snapshot).aliases if snapshot else {}
    except UndecodableError:
        return {}


def alias_rows(shards: Iterable[ShardView]) -> list[AliasRow]:
    """Return the aliases of all *shards*, those that save the most contacts first."""
    rows = [
        AliasRow(name, alias.leading, alias.saved, alias.checked, _said_of(alias))
        for shard in shards
        for name, alias in aliases_of(shard).items()
    ]
    return sorted(rows, key=lambda row: (-row.saved, row.name))


def _said_of(alias: Alias) -> str:
    """Return why the host leads that does, and how the alias ended, in words."""
    if alias.state == "trial":
        return "being compared"
    stays = "; its URLs stay parked" if alias.state == "held" else ""
    ended = f", ended by a {alias.ended_by}{stays}" if alias.ended_by else ""
    return f"by {alias.reason}{ended}"


def alias_of(shards: Iterable[ShardView], rules: HostRules, host: str) -> str:
    """Return the host that leads the site of *host*, by *rules* or in *shards*; "" if none."""
    if leading := rules.host_policy(host).alias:
        return leading
    found = (aliases_of(shard).get(host) for shard in shards)
    return next((alias.leading for alias in found if alias is not None), "")

"""The settings of a hive, checked before a crawl begins."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scrapy.settings import SETTINGS_PRIORITIES

from webcrawl.configuration.values import flag, number, whole
from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

#: HIVE_SHARDS at most: every drone reads and reports on all of them every few seconds.
MAX_SHARDS = 4096
# It becomes part of keys, streams and paths.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


class HiveSettings(NamedTuple):
    """HIVE, HIVE_SHARDS and HIVE_LEASE_SECS."""

    name: str
    shards: int
    lease_secs: float


def check_hive_settings(settings: BaseSettings) -> HiveSettings:
    """The settings of the hive, checked. FatalError for a value that cannot be, and for one that a
    hive cannot have."""
    name = str(settings.get("HIVE"))
    if not _NAME.fullmatch(name):
        raise FatalError(
            "HIVE must be a name of at most 64 letters, digits, underscores, dots and hyphens, "
            f"not {name!r}."
        )
    shards = whole(settings, "HIVE_SHARDS", at_least=1)
    if shards > MAX_SHARDS:
        raise FatalError(f"HIVE_SHARDS must be at most {MAX_SHARDS}, not {shards}.")
    if settings.get("POLITENESS_KEY") == "address":
        raise FatalError(
            "POLITENESS_KEY must be host or domain in a hive: one IP address has hosts of many "
            "drones, which share no clock."
        )
    is_set = (settings.getpriority("LIVE_SEEDS") or 0) > SETTINGS_PRIORITIES["project"]
    if is_set and not flag(settings, "LIVE_SEEDS"):
        raise FatalError("LIVE_SEEDS cannot be off in a hive, which always takes live seeds.")
    if whole(settings, "CLOSESPIDER_FEW_HOSTS", at_least=0):
        raise FatalError(
            "CLOSESPIDER_FEW_HOSTS is for a crawl of one process: end a hive by scrapy hive stop, "
            "and write what is left by scrapy frontier --export."
        )
    return HiveSettings(name, shards, number(settings, "HIVE_LEASE_SECS", at_least=1))


def store_url(settings: BaseSettings) -> str:
    """HIVE_STORE, or a directory beside JOBDIR that all drones find whose job directories are in
    one. FatalError without JOBDIR."""
    if url := settings.get("HIVE_STORE"):
        return str(url)
    if not settings.get("JOBDIR"):
        raise FatalError("HIVE needs a JOBDIR: what a drone holds has to outlast its process.")
    return str(Path(settings["JOBDIR"]).absolute().parent / f"{settings.get('HIVE')}.store")

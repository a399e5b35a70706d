"""Reads and checks the settings of a hive before a crawl begins."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from webcrawl.configuration.values import flag, number, whole_number
from webcrawl.errors import FatalError
from webcrawl.hive.launch.job_directories import is_hive
from webcrawl.wording import COMMAND

#: Largest HIVE_SHARDS: every drone reads and reports on all shards every few seconds.
MAX_SHARDS = 4096
# The name of a hive becomes part of Redis keys and of paths.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


class HiveSettings(NamedTuple):
    """The values of HIVE, HIVE_SHARDS and HIVE_LEASE_SECS."""

    name: str
    shards: int
    lease_secs: float


def check_hive_settings(settings: BaseSettings) -> HiveSettings:
    """Check the settings of a hive and return them.

    Raises FatalError for an invalid value, and for settings that cannot be used in a hive.
    """
    name = str(settings.get("HIVE"))
    if not _NAME.fullmatch(name):
        raise FatalError(
            "HIVE must be a name of at most 64 letters, digits, underscores, dots and hyphens, "
            f"not {name!r}."
        )
    shards = whole_number(settings, "HIVE_SHARDS", at_least=1)
    if shards > MAX_SHARDS:
        raise FatalError(f"HIVE_SHARDS must be at most {MAX_SHARDS}, not {shards}.")

    if settings.get("POLITENESS_KEY") == "address":
        raise FatalError(
            "POLITENESS_KEY must be host or domain in a hive: the hosts of one IP address may "
            "belong to several drones, which do not share a clock."
        )
    # The default is off, which is not a contradiction; only a value of the user is.
    is_set_by_user = (settings.getpriority("LIVE_SEEDS") or 0) > SETTINGS_PRIORITIES["project"]
    if is_set_by_user and not flag(settings, "LIVE_SEEDS"):
        raise FatalError("LIVE_SEEDS cannot be off in a hive, which always accepts live seeds.")
    if whole_number(settings, "CLOSESPIDER_FEW_HOSTS", at_least=0):
        raise FatalError(
            "CLOSESPIDER_FEW_HOSTS is only for a single-process crawl: end a hive with "
            f"{COMMAND} hive stop, and write the URLs that are left with {COMMAND} frontier "
            "JOBDIR --export FILE."
        )
    return HiveSettings(name, shards, number(settings, "HIVE_LEASE_SECS", at_least=1))


def store_url(settings: BaseSettings) -> str:
    """Return HIVE_STORE or, if it is not set, a directory next to JOBDIR.

    The default is the same for all drones whose job directories are in one directory. Raises
    FatalError if JOBDIR is not set either.
    """
    if url := settings.get("HIVE_STORE"):
        return str(url)
    if not settings.get("JOBDIR"):
        raise FatalError("HIVE needs a JOBDIR: the shards of a drone must outlast its process.")
    return str(Path(settings["JOBDIR"]).absolute().parent / f"{settings.get('HIVE')}.store")


def store_at(path: Path, settings: BaseSettings) -> str:
    """Return the HIVE_STORE of the hive in *path*, or its default.

    The default of a local hive, which ``scrapy hive`` runs, is in its own directory.
    """
    is_local = not settings.get("HIVE") or is_hive(path)
    return str(settings.get("HIVE_STORE") or (path / "store" if is_local else store_url(settings)))

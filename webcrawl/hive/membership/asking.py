"""Connects commands to a running hive, through its Redis, which may be in its job directory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from redis.asyncio import Redis
from scrapy.settings import Settings

from webcrawl.errors import FatalError, UnreachableError
from webcrawl.hive.membership.connection import (
    UNREACHABLE,
    check,
    client_of,
    fatal_error_of,
)
from webcrawl.hive.membership.embedded_redis import EmbeddedRedis
from webcrawl.hive.membership.keys import Keys

_T = TypeVar("_T")

#: The name of a hive that has its own Redis.
HERE = "local"


async def ask_hive(
    name: str, settings: Settings, ask: Callable[[Redis, Keys], Awaitable[_T]]
) -> _T:
    """Call *ask* with a Redis client and the keys of the hive *name*, and return its result.

    Raises FatalError if there is no such hive.
    """
    redis_url = settings.get("REDIS_URL")
    jobdir = Path(settings["JOBDIR"])
    url = redis_url or EmbeddedRedis(directory=jobdir / "redis").url
    client = client_of(settings, url)
    try:
        await check(client)
        return await ask(client, Keys(name))
    except (FatalError, *UNREACHABLE) as error:
        # A Redis that the user named has an error to mend. That of a local hive just does not run.
        if redis_url:
            raise error if isinstance(error, FatalError) else fatal_error_of(error) from error
        raise UnreachableError(
            f"No hive runs in JOBDIR {jobdir}. Name its directory with -s JOBDIR=DIR, or its Redis "
            "with -s REDIS_URL=URL -s HIVE=NAME."
        ) from error
    finally:
        await client.aclose()


def hive_name(settings: Settings) -> str:
    """Return the name of the hive in HIVE. A hive with its own Redis may leave HIVE unset.

    Raises FatalError if HIVE is needed but not set.
    """
    name = str(settings.get("HIVE") or "")
    if not name and settings.get("REDIS_URL"):
        raise FatalError("Name the hive with -s HIVE=NAME, because others may use the same Redis.")
    return name or HERE

"""The client of Redis, from the settings that scrapy-redis has for it, and what its failures are.

REDIS_URL is one of

    redis://user:password@host:port/db                     rediss:// is the same by TLS
    unix://user:password@/path/to/socket?db=0
    redis+cluster://user:password@host:port,host:port      rediss+cluster://
    redis+sentinel://user:password@host:port,host:port/service/db       rediss+sentinel://

with options of redis-py behind a question mark (``?ssl_ca_certs=/etc/ca.pem``), or in REDIS_PARAMS.
The user and the password of a sentinel URL are those of the server; the sentinels' own are in
REDIS_PARAMS, as ``{"sentinel_kwargs": {"password": ...}}``. Without a URL there are REDIS_HOST,
REDIS_PORT and REDIS_DB.

The client answers in bytes, by RESP2, which Redis 6.2 and all newer ones speak alike. It tries once
more at once when a connection was lost, as after a restart of Redis, so a command may be carried
out twice; what a hive does while Redis is away is its own decision. It is used in one event loop.
`UNREACHABLE` are the exceptions after which a call may be made again later.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,  # noqa: A004 - redis-py's own
    RedisClusterException,
    RedisError,
)

from webcrawl.clock import now
from webcrawl.configuration.secrets import masked_error
from webcrawl.configuration.values import whole
from webcrawl.errors import FatalError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

#: Of one server, or of all of a cluster.
RedisClient: TypeAlias = Redis | RedisCluster
#: What the calls of a client raise while Redis is away, starting, full or without a master.
# RuntimeError is uvloop's, for a connection that has been reset while something was being written.
UNREACHABLE = (RedisError, RedisClusterException, OSError, TimeoutError, RuntimeError)

# XTRIM by ID came with it.
_OLDEST = (6, 2)
_PORT = 6379
_SENTINEL_PORT = 26379
#: The longest wait for an answer. A server that is there takes milliseconds.
TIMEOUT_SECS = 5.0
# Of the time that Redis takes for an answer the fastest of some counts; a lease is so many of these
# at least: a beat has a quarter of it for two, and the same again for what else is under way.
_TRIES = 3
_ANSWERS = 16
# Least and most between two tries while Redis is away.
_BACK_OFF_SECS = (0.1, 5.0)
# Of scrapy-redis' parameters, those of its blocking client, whose answers are text.
_OTHERS = frozenset(
    {"url", "redis_cls", "retry_on_timeout", "encoding", "decode_responses", "protocol"}
)


def client_of(settings: BaseSettings) -> RedisClient:
    """A client by *settings*, which connects when it is first used. FatalError for a URL or
    parameters that cannot be. To be closed by ``close``."""
    url = settings.get("REDIS_URL")
    try:
        given = settings.getdict("REDIS_PARAMS")
        params = {name: value for name, value in given.items() if name not in _OTHERS}
        if not url:
            host = settings.get("REDIS_HOST") or "localhost"
            port = whole(settings, "REDIS_PORT", at_least=0) or _PORT
            url = f"redis://{host}:{port}/{whole(settings, 'REDIS_DB', at_least=0)}"
        return client_at(url, **params)
    except (TypeError, ValueError) as error:
        why = masked_error(error, url)
        raise FatalError(f"REDIS_URL or REDIS_PARAMS cannot be used: {why}.") from None


async def check(client: RedisClient) -> None:
    """FatalError with one sentence if no Redis answers that can be used. At most as long as the
    time-out, 5 seconds."""
    try:
        answer = await client.execute_command("INFO", "server")
        version = str(answer["redis_version"])
        await client.execute_command("TIME")
    except AuthenticationError as error:
        raise FatalError(f"Redis refuses the password of REDIS_URL: {error}.") from error
    except (TypeError, *UNREACHABLE) as error:
        raise no_answer(error) from error
    if tuple(map(int, version.split(".")[:2])) < _OLDEST:
        raise FatalError(f"Redis 6.2 or newer is needed; at REDIS_URL is {version}.")


async def check_for_leases(client: RedisClient, lease_secs: float) -> None:
    """FatalError with one sentence if leases of *lease_secs* cannot be kept in the Redis, which may
    drop them, or answers too late. One of UNREACHABLE."""
    answer = await client.execute_command("INFO", "memory")
    policy = str(answer.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction" and int(answer.get("maxmemory", 0)):
        raise FatalError(
            f"The Redis at REDIS_URL has maxmemory-policy {policy}, by which it drops leases and "
            "links when its memory is full: set noeviction."
        )
    secs = math.inf
    for _ in range(_TRIES):
        began = now()
        await client.execute_command("TIME")
        secs = min(secs, now() - began)
    if lease_secs < _ANSWERS * secs:
        raise FatalError(
            f"HIVE_LEASE_SECS {lease_secs:g} is too short: Redis answers in {secs:.2g} s, and "
            f"beats need at least {math.ceil(_ANSWERS * secs)}."
        )


def no_answer(error: Exception) -> FatalError:
    """The exception for *error*, one of UNREACHABLE, by which a hive cannot be entered."""
    why = str(error) or type(error).__name__
    return FatalError(f"Redis at REDIS_URL does not answer ({why}): start it, or mend the URL.")


async def servers(client: Any) -> str:
    """Names the server processes of *client* that hold the data."""
    if not isinstance(client, RedisCluster):
        return str((await client.execute_command("INFO", "server"))["run_id"])
    nodes = client.get_primaries()
    answers = [await client.execute_command("INFO", "server", target_nodes=one) for one in nodes]
    return " ".join(sorted(str(answer["run_id"]) for answer in answers))


async def close(client: RedisClient) -> None:
    """Close the *client* and all its connections."""
    await client.aclose()
    if isinstance(client, Redis) and isinstance(client.connection_pool, SentinelConnectionPool):
        await client.connection_pool.sentinel_manager.aclose()


def is_cancelled() -> bool:
    """Whether the running task is to end: redis-py 8.1 may swallow that while it connects."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class BackOff:
    """The growing time between tries while something does not work."""

    def __init__(self) -> None:
        self._secs = 0.0

    def reset(self) -> None:
        """It has worked."""
        self._secs = 0.0

    async def wait(self) -> None:
        """Twice as long as the last time."""
        least, most = _BACK_OFF_SECS
        self._secs = min(most, max(least, 2 * self._secs))
        await asyncio.sleep(self._secs)


def client_at(url: str, **params: Any) -> RedisClient:
    """A client of the Redis at *url*, with *params* of redis-py. ValueError."""
    parts = urlsplit(url)
    scheme, _, kind = parts.scheme.partition("+")
    params = {
        "socket_timeout": TIMEOUT_SECS,
        "socket_connect_timeout": TIMEOUT_SECS,
        **params,
        "protocol": 2,
        "retry": Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
    }
    if not kind:
        return Redis.from_url(url, **params)
    login, at, hosts = parts.netloc.rpartition("@")
    service, _, db = parts.path.strip("/").partition("/")
    found: dict[str, Any] = dict(
        parse_url(urlunsplit((scheme, f"{login}{at}", f"/{db}", parts.query, "")))
    )
    if found.pop("connection_class", None) is SSLConnection:
        found["ssl"] = True
    if kind == "cluster" and not service:
        nodes = [ClusterNode(*_address(host, _PORT)) for host in hosts.split(",")]
        return RedisCluster(startup_nodes=nodes, **params, **found)
    if kind == "sentinel" and service:
        own = {name: value for name, value in params.items() if name != "sentinel_kwargs"}
        sentinels = Sentinel(  # type: ignore[no-untyped-call]  # redis-py has few types
            [_address(host, _SENTINEL_PORT) for host in hosts.split(",")],
            sentinel_kwargs={
                name: value
                for name, value in (own | found).items()
                if name.startswith(("socket_", "ssl", "retry", "protocol"))
            }
            | params.get("sentinel_kwargs", {}),
            **own,
            **found,
        )
        master: Redis = sentinels.master_for(service)
        return master
    raise ValueError("see docs/settings.md for the forms of the URL")


def _address(text: str, port: int) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError(f"{text!r} is no host")
    return parts.hostname, parts.port or port

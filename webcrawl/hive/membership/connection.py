"""Connects to Redis by the settings of scrapy-redis, and checks that it can be used.

REDIS_URL is one of

    redis://user:password@host:port/db                     rediss:// is the same over TLS
    unix://user:password@/path/to/socket?db=0
    redis+cluster://user:password@host:port,host:port      rediss+cluster://
    redis+sentinel://user:password@host:port,host:port/service/db       rediss+sentinel://

with options of redis-py after a question mark (``?ssl_ca_certs=/etc/ca.pem``), or in REDIS_PARAMS.
The user and password in a sentinel URL are those of the server; those of the sentinels are in
REDIS_PARAMS, as ``{"sentinel_kwargs": {"password": ...}}``. Without a URL, REDIS_HOST, REDIS_PORT
and REDIS_DB are used.

The client returns bytes and uses RESP2, which Redis 6.2 and all newer versions support. When it
loses its connection, as after a restart of Redis, it retries once immediately, so a command may be
carried out twice. A client must be used in one event loop only. ``UNREACHABLE`` has the exceptions
after which a call can be repeated later.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import (
    MasterNotFoundError,
    SentinelConnectionPool,
    SentinelManagedConnection,
)
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,  # noqa: A004 - redis-py's own
    NoPermissionError,
    RedisClusterException,
    RedisError,
    ResponseError,
)
from scrapy.settings import BaseSettings

from webcrawl.configuration.secrets import masked_error
from webcrawl.configuration.values import whole_number
from webcrawl.errors import FatalError, UnreachableError

#: Client of one server, or of all servers of a cluster.
RedisClient: TypeAlias = Redis | RedisCluster
#: The exceptions that a client raises while Redis is down, starting, full or without a master.
# uvloop raises RuntimeError if a connection is reset during a write.
UNREACHABLE = (RedisError, RedisClusterException, OSError, TimeoutError, RuntimeError)

# The oldest usable version: the first one with XTRIM MINID.
_MIN_VERSION = (6, 2)
_PORT = 6379
_SENTINEL_PORT = 26379
#: The longest wait for an answer. A server that is up takes milliseconds.
TIMEOUT_SECS = 5.0
#: Seconds between two tries while Redis is down.
RETRY_SECS = 1.0
# Parameters that scrapy-redis needs for its own blocking client; they are ignored here.
_IGNORED_PARAMS = frozenset(
    {"url", "redis_cls", "retry_on_timeout", "encoding", "decode_responses", "protocol"}
)


def client_of(settings: BaseSettings, url: str | None = None) -> RedisClient:
    """Return a client for the Redis in *settings* or at *url*, which connects on first use.

    It must be closed with ``close``. Raises FatalError for an invalid URL or invalid parameters.
    """
    url = url or settings.get("REDIS_URL")
    try:
        all_params = settings.getdict("REDIS_PARAMS")
        params = {name: value for name, value in all_params.items() if name not in _IGNORED_PARAMS}
        if not url:
            host = settings.get("REDIS_HOST") or "localhost"
            port = whole_number(settings, "REDIS_PORT", at_least=0) or _PORT
            url = f"redis://{host}:{port}/{whole_number(settings, 'REDIS_DB', at_least=0)}"
        return client_at(url, **params)
    except (TypeError, ValueError) as error:
        reason = masked_error(error, url)
        raise FatalError(f"REDIS_URL or REDIS_PARAMS cannot be used: {reason}.") from None


async def check(client: RedisClient) -> None:
    """Raise FatalError unless a usable Redis answers within 5 seconds."""
    try:
        answer = await client.execute_command("INFO", "server")
        version = str(answer["redis_version"])
        await client.execute_command("TIME")
    except (TypeError, *UNREACHABLE) as error:
        raise fatal_error_of(error) from error
    if tuple(map(int, version.split(".")[:2])) < _MIN_VERSION:
        raise FatalError(f"Redis 6.2 or newer is needed; REDIS_URL has version {version}.")
    mode = answer.get("redis_mode", answer.get("server_mode"))  # the latter in Valkey
    if mode == "cluster" and not isinstance(client, RedisCluster):
        raise FatalError(
            "REDIS_URL names a node of a Redis Cluster: set REDIS_URL to redis+cluster://HOST:PORT."
        )


async def check_for_leases(client: RedisClient) -> None:
    """Raise FatalError if Redis may evict leases.

    Raises one of UNREACHABLE if Redis does not answer.
    """
    for memory_info in await _info_of_servers(client, "memory"):
        policy = str(memory_info.get("maxmemory_policy", "noeviction"))
        if policy != "noeviction" and int(memory_info.get("maxmemory", 0)):
            raise FatalError(
                f"The Redis at REDIS_URL has maxmemory-policy {policy}, so it deletes leases and "
                "links when its memory is full: set maxmemory-policy noeviction."
            )


def reason_of(error: Exception) -> str:
    """Return the text of *error*, or its type, as that of a timeout is empty."""
    if isinstance(error, MasterNotFoundError):  # describes each sentinel in 700 characters
        return str(error).partition(" : ")[0]
    return str(error) or type(error).__name__


def fatal_error_of(error: Exception) -> FatalError:
    """Return the error to raise if Redis cannot be used because of *error*, one of UNREACHABLE.

    Only an UnreachableError may go away by itself.
    """
    reason = reason_of(error)
    # The error and its causes, down to that of the operating system.
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    # redis-py gives the errors of sentinels only as text.
    if "AuthenticationError" in str(error) or any(
        isinstance(cause, AuthenticationError | NoPermissionError) for cause in causes
    ):
        return FatalError(
            f"Redis refuses the user or password in REDIS_URL or REDIS_PARAMS: {reason}."
        )
    if "WRONGTYPE" in reason:
        return FatalError(f"A Redis key of the hive has a value of another type: {reason}.")
    if "NOREPLICAS" in reason:
        return UnreachableError(
            "The Redis at REDIS_URL refuses writes without its replicas: start them."
        )
    return UnreachableError(
        f"Redis at REDIS_URL does not answer ({reason}): start it, or correct the URL."
    )


async def servers(client: Any) -> str:
    """Return the IDs of the server processes that *client* gets its data from."""
    return " ".join(
        sorted(str(info["run_id"]) for info in await _info_of_servers(client, "server"))
    )


async def _info_of_servers(client: Any, section: str) -> list[dict[str, Any]]:
    """Return the *section* of INFO of each server that *client* gets its data from."""
    if not isinstance(client, RedisCluster):
        return [await client.execute_command("INFO", section)]
    nodes = (await client.initialize()).get_primaries()
    return [await client.execute_command("INFO", section, target_nodes=node) for node in nodes]


async def close(client: RedisClient) -> None:
    """Close the *client* and all its connections."""
    await client.aclose()
    if (pool := _sentinel_pool(client)) is not None:
        await pool.sentinel_manager.aclose()


def is_cancelled() -> bool:
    """Return whether the current task is being cancelled.

    redis-py 8.1 may swallow the CancelledError while it connects.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def can_fail_over(client: RedisClient) -> bool:
    """Return whether another server may take the place of one that *client* uses."""
    return isinstance(client, RedisCluster) or _sentinel_pool(client) is not None


def _sentinel_pool(client: RedisClient) -> SentinelConnectionPool | None:
    pool = getattr(client, "connection_pool", None)
    return pool if isinstance(pool, SentinelConnectionPool) else None


def client_at(url: str, **params: Any) -> RedisClient:
    """Return a client for *url* with the parameters *params* of redis-py. ValueError if invalid."""
    parts = urlsplit(url)
    scheme, _, deployment = parts.scheme.partition("+")
    # The user's parameters replace the timeouts here, but not the protocol and the retries.
    params = {
        "socket_timeout": TIMEOUT_SECS,
        "socket_connect_timeout": TIMEOUT_SECS,
        **params,
        "protocol": 2,
        "retry": Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
    }
    if not deployment:
        return Redis.from_url(url, **params)

    # redis-py cannot parse these URLs, so it gets the hosts and an equivalent URL without them.
    login, separator, hosts = parts.netloc.rpartition("@")
    service, _, db = parts.path.strip("/").partition("/")
    url_params: dict[str, Any] = dict(
        parse_url(urlunsplit((scheme, f"{login}{separator}", f"/{db}", parts.query, "")))
    )
    if url_params.pop("connection_class", None) is SSLConnection:
        url_params["ssl"] = True

    if deployment == "cluster" and not service:
        nodes = [ClusterNode(*_address(host, _PORT)) for host in hosts.split(",")]
        return RedisCluster(startup_nodes=nodes, **params, **url_params)

    if deployment == "sentinel" and service:
        # Sentinels get the parameters of connections, but have their own user and password.
        server_params = {name: value for name, value in params.items() if name != "sentinel_kwargs"}
        sentinels = Sentinel(  # type: ignore[no-untyped-call]  # redis-py has few types
            [_address(host, _SENTINEL_PORT) for host in hosts.split(",")],
            sentinel_kwargs={
                name: value
                for name, value in (server_params | url_params).items()
                if name.startswith(("socket_", "ssl", "retry", "protocol"))
            }
            | params.get("sentinel_kwargs", {}),
            **server_params,
            **url_params,
        )
        is_secure = "ssl" in url_params
        connection_class = _SecureMasterConnection if is_secure else _MasterConnection
        master: Redis = sentinels.master_for(service, connection_class=connection_class)
        return master
    raise ValueError("see docs/reference/settings.md for the forms of the URL")


class _MasterConnection(SentinelManagedConnection):
    """Connection to a master, which is looked up again if it lacks the replicas for writes."""

    async def read_response(self, *args: Any, **options: Any) -> Any:
        """Return the next response; disconnect after NOREPLICAS, as redis-py after READONLY."""
        try:
            return await super().read_response(*args, **options)
        except ResponseError as error:
            if "NOREPLICAS" not in str(error):
                raise
            await self.disconnect()
            raise ConnectionError(str(error)) from error


class _SecureMasterConnection(_MasterConnection, SSLConnection):
    """The same over TLS."""


def _address(text: str, default_port: int) -> tuple[str, int]:
    """Parse *text*, a host with an optional port, and return both. Raises ValueError."""
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError(f"{text!r} is not a host")
    return parts.hostname, parts.port or default_port

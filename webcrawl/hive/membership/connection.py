"""Connects to Redis by the settings of scrapy-redis, and checks that it can be used.

REDIS_URL is one of

    redis://user:password@host:port/db        rediss:// is the same over TLS
    unix://user:password@/path/to/socket?db=0

with options of redis-py after a question mark (``?ssl_ca_certs=/etc/ca.pem``), or in REDIS_PARAMS.
Without a URL, REDIS_HOST, REDIS_PORT and REDIS_DB are used.

The client returns bytes and uses RESP2, which Redis 6.2 and all newer versions support. When it
loses its connection, as after a restart of Redis, it retries once immediately, so a command may be
carried out twice. A client must be used in one event loop only. ``UNREACHABLE`` has the exceptions
after which a call can be repeated later.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,  # noqa: A004 - redis-py's own
    NoPermissionError,
    RedisError,
)
from scrapy.settings import BaseSettings

from webcrawl.configuration.secrets import masked_error
from webcrawl.configuration.values import whole_number
from webcrawl.errors import FatalError, UnreachableError

#: The exceptions that a client raises while Redis is down, starting, full or a replica.
# uvloop raises RuntimeError if a connection is reset during a write.
UNREACHABLE = (RedisError, OSError, TimeoutError, RuntimeError)

# The oldest usable version: the first one with XTRIM MINID.
_MIN_VERSION = (6, 2)
_PORT = 6379
#: The longest wait for an answer. A server that is up takes milliseconds.
TIMEOUT_SECS = 5.0
#: Seconds between two tries while Redis is down.
RETRY_SECS = 1.0
_ONE_SERVER = (
    "Instead, one server is enough, which may be restarted or replaced during a crawl: see "
    "docs/howto/several-machines.md"
)
# Parameters that scrapy-redis needs for its own blocking client; they are ignored here.
_IGNORED_PARAMS = frozenset(
    {"url", "redis_cls", "retry_on_timeout", "encoding", "decode_responses", "protocol"}
)


def client_of(settings: BaseSettings, url: str | None = None) -> Redis:
    """Return a client for the Redis in *settings* or at *url*, which connects on first use.

    It must be closed with ``aclose``. Raises FatalError for an invalid URL or invalid parameters.
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


async def check(client: Redis) -> None:
    """Raise FatalError unless a usable Redis answers within 5 seconds."""
    try:
        answer = await client.execute_command("INFO", "server")
        version = str(answer["redis_version"])
        mode = answer.get("redis_mode", answer.get("server_mode"))  # the latter in Valkey
        if mode in {"cluster", "sentinel"}:
            raise FatalError(f"REDIS_URL names a server in {mode} mode. {_ONE_SERVER}")
        await client.execute_command("TIME")
    except (TypeError, *UNREACHABLE) as error:
        raise fatal_error_of(error) from error
    if tuple(map(int, version.split(".")[:2])) < _MIN_VERSION:
        raise FatalError(f"Redis 6.2 or newer is needed; REDIS_URL has version {version}.")


async def check_for_leases(client: Redis) -> None:
    """Raise FatalError if Redis may evict leases.

    Raises one of UNREACHABLE if Redis does not answer.
    """
    memory_info = await client.execute_command("INFO", "memory")
    policy = str(memory_info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction" and int(memory_info.get("maxmemory", 0)):
        raise FatalError(
            f"The Redis at REDIS_URL has maxmemory-policy {policy}, so it deletes leases and "
            "links when its memory is full: set maxmemory-policy noeviction."
        )


def reason_of(error: Exception) -> str:
    """Return the text of *error*, or its type, as that of a timeout is empty."""
    return str(error) or type(error).__name__


def fatal_error_of(error: Exception) -> FatalError:
    """Return the error to raise if Redis cannot be used because of *error*.

    *error* is one of UNREACHABLE, or a TypeError. Only an UnreachableError may go away by itself.
    """
    reason = reason_of(error)
    if isinstance(error, TypeError):  # redis-py does not know an argument
        return FatalError(f"REDIS_URL or REDIS_PARAMS cannot be used: {reason}.")
    # The error and its causes, down to that of the operating system.
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    if any(isinstance(cause, AuthenticationError | NoPermissionError) for cause in causes):
        return FatalError(
            f"Redis refuses the user or password in REDIS_URL or REDIS_PARAMS: {reason}."
        )
    if "WRONGTYPE" in reason:
        return FatalError(f"A Redis key of the hive has a value of another type: {reason}.")
    return UnreachableError(
        f"Redis at REDIS_URL does not answer ({reason}): start it, or correct the URL."
    )


def is_cancelled() -> bool:
    """Return whether the current task is being cancelled.

    redis-py 8.1 may swallow the CancelledError while it connects.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def client_at(url: str, **params: Any) -> Redis:
    """Return a client for *url* with the parameters *params* of redis-py. ValueError if invalid."""
    if urlsplit(url).scheme.endswith(("+sentinel", "+cluster")):
        raise ValueError(f"redis+sentinel:// and redis+cluster:// ended with 0.6. {_ONE_SERVER}")
    # The user's parameters replace the timeouts here, but not the protocol and the retries.
    params = {
        "socket_timeout": TIMEOUT_SECS,
        "socket_connect_timeout": TIMEOUT_SECS,
        **params,
        "protocol": 2,
        "retry": Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
    }
    return Redis.from_url(url, **params)

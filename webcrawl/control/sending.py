"""Sending of a command to a crawl: of one process by its socket, to a hive by its Redis.

The visits of ``refetch`` and ``due`` are found here, in the log of finished URLs, so that the crawl
has no more to do than to take them. What waits already is left out: if it is broken off, the same
command does the rest.
"""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from webcrawl.control.control import CommandAnswer
from webcrawl.control.hive import send_to_hive
from webcrawl.control.table import CommandError, Due, Refetch, parse
from webcrawl.control.unix_socket import send
from webcrawl.crawl.job.control_journal import Request
from webcrawl.errors import FatalError
from webcrawl.frontier import encode
from webcrawl.hive.bus.live_seeds import SeedSource
from webcrawl.hive.launch.job_directories import is_hive
from webcrawl.hive.membership.asking import ask_hive, hive_name
from webcrawl.hive.membership.connection import check, client_of, close
from webcrawl.hive.membership.embedded_redis import EmbeddedRedis
from webcrawl.jobs.inspect.requeueing import Named, PutBack, answered, push

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.settings import Settings

    from webcrawl.jobs.inspect.last_lines import OnProgress, Takes

# In a request: entries have at most 20 kB, and a third more in JSON.
_VISITS = 36
# Until the hive's Redis has read its data; items that may wait there, 0.3 kB each.
_REDIS_SECS = 60.0
_MOST_PUSHED = 4_000_000


def send_to_crawl(settings: Settings, request: Request) -> list[CommandAnswer]:
    """The answer of the crawl of *settings*, or those of the drones of a hive. Blocks for as long
    as they take. FatalError with one sentence if none runs, or it refuses *request*."""
    try:
        command = parse(request.name, request.arguments)
    except CommandError as error:
        raise FatalError(str(error)) from error
    if isinstance(command, Refetch | Due):
        takes = answered(command.what) if isinstance(command, Refetch) else Named(command.urls)
        done = visit(settings, request, takes, on_progress=lambda *_: None)
        return [CommandAnswer(f"{request.name}: {done.told}")]
    if not (settings.get("HIVE") or is_hive(Path(settings["JOBDIR"]))):
        return [send(Path(settings["JOBDIR"]), request)]
    source = SeedSource.from_settings(settings, "web")
    ask = partial(send_to_hive, request=request, source=source)
    settings = settings.copy()  # it is given the address of the hive's own Redis
    answers: list[CommandAnswer] = asyncio.run(ask_hive(hive_name(settings), settings, ask))
    return answers


def visit(
    settings: Settings, request: Request, takes: Takes, *, on_progress: OnProgress
) -> PutBack:
    """Have the running crawl of *settings*, or a hive that need not run, visit what *takes* takes,
    for the sake of *request*. FatalError."""
    jobdir = Path(settings["JOBDIR"])
    if is_hive(jobdir):
        with _live_seeds(settings) as pushed:
            return push(jobdir, takes, pushed, on_progress=on_progress)

    def handed(entries: list[bytes]) -> None:
        for start in range(0, len(entries), _VISITS):
            send(jobdir, Request("visit", {"entries": entries[start : start + _VISITS]}))

    done = push(jobdir, takes, handed, on_progress=on_progress, encoded=encode)
    send(jobdir, request)
    return done


@contextmanager
def _live_seeds(settings: Settings) -> Iterator[Callable[[list[bytes]], None]]:
    """What pushes items to the live seeds of a hive, whose own Redis runs meanwhile. FatalError."""
    source = SeedSource.from_settings(settings, "web")
    server = None
    with asyncio.Runner() as runner:
        redis = EmbeddedRedis(directory=Path(settings["JOBDIR"]) / "redis")
        if not settings.get("REDIS_URL"):
            if not runner.run(redis.wait(secs=1, goes_on=redis.socket.exists)):
                server = subprocess.Popen(redis.prepare())  # noqa: S603  # our own
            settings.set("REDIS_URL", redis.url, priority="cmdline")
            runner.run(redis.wait(secs=_REDIS_SECS, goes_on=lambda: True))
        client = client_of(settings)

        def pushed(items: list[bytes]) -> None:
            most = runner.run(client.execute_command(*source.push(items)))
            if most > _MOST_PUSHED:
                raise FatalError(f"{most:,} live seeds wait: let the hive run, then push the rest.")

        try:
            runner.run(check(client))
            yield pushed
        finally:
            runner.run(close(client))
            if server is not None:
                runner.run(redis.end())
                server.wait()

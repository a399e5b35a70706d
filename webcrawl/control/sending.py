"""Sending of commands: to a crawl of one process by its socket, to a hive by its Redis.

The URLs to visit for ``refetch`` and ``due`` are found here, in the log of finished URLs, so the
crawl only has to accept them. URLs that already wait are left out. So after an interruption, the
same command does the rest.
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
from webcrawl.jobs.inspect.requeueing import PutBack, UrlList, answered_filter, push

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.settings import Settings

    from webcrawl.jobs.inspect.last_lines import LineFilter, OnProgress

# Visits in one request: an entry has at most 20 kB, and a third more in JSON.
_VISITS = 36
# How long the hive's Redis may take to read its data.
_REDIS_SECS = 60.0
# How many items of 0.3 kB may wait there.
_MAX_PUSHED = 4_000_000


def send_to_crawl(settings: Settings, request: Request) -> list[CommandAnswer]:
    """Send *request* and return the answer of the crawl, or one of each drone of a hive.

    Blocks until they have answered. Raises FatalError if no crawl runs, or if it refuses.
    """
    try:
        command = parse(request.name, request.arguments)
    except CommandError as error:
        raise FatalError(str(error)) from error
    if isinstance(command, Refetch | Due):
        selects = (
            answered_filter(command.what) if isinstance(command, Refetch) else UrlList(command.urls)
        )
        done = visit(settings, request, selects, on_progress=lambda *_: None)
        return [CommandAnswer(f"{request.name}: {done.in_words}")]
    if not (settings.get("HIVE") or is_hive(Path(settings["JOBDIR"]))):
        return [send(Path(settings["JOBDIR"]), request)]
    source = SeedSource.from_settings(settings, "web")
    ask = partial(send_to_hive, request=request, source=source)
    settings = settings.copy()  # the address of the hive's own Redis is added
    answers: list[CommandAnswer] = asyncio.run(ask_hive(hive_name(settings), settings, ask))
    return answers


def visit(
    settings: Settings, request: Request, selects: LineFilter, *, on_progress: OnProgress
) -> PutBack:
    """Have a running crawl visit the URLs that *selects* accepts; a hive need not run.

    *request* is the command this is for. Raises FatalError.
    """
    jobdir = Path(settings["JOBDIR"])
    if is_hive(jobdir):
        with _live_seeds(settings) as push_items:
            return push(jobdir, selects, push_items, on_progress=on_progress)

    def hand_over(entries: list[bytes]) -> None:
        for start in range(0, len(entries), _VISITS):
            send(jobdir, Request("visit", {"entries": entries[start : start + _VISITS]}))

    done = push(jobdir, selects, hand_over, on_progress=on_progress, encoded=encode)
    send(jobdir, request)
    return done


@contextmanager
def _live_seeds(settings: Settings) -> Iterator[Callable[[list[bytes]], None]]:
    """Yield a function that pushes items to the live seeds of a hive.

    If the hive has its own Redis, it is started for that time. Raises FatalError.
    """
    source = SeedSource.from_settings(settings, "web")
    server = None
    with asyncio.Runner() as runner:
        redis = EmbeddedRedis(directory=Path(settings["JOBDIR"]) / "redis")
        if not settings.get("REDIS_URL"):
            if not runner.run(redis.wait(secs=1, is_starting=redis.socket.exists)):
                server = subprocess.Popen(redis.prepare())  # noqa: S603  # our own
            settings.set("REDIS_URL", redis.url, priority="cmdline")
            runner.run(redis.wait(secs=_REDIS_SECS, is_starting=lambda: True))
        client = client_of(settings)

        def push_items(items: list[bytes]) -> None:
            waiting = runner.run(client.execute_command(*source.push(items)))
            if waiting > _MAX_PUSHED:
                raise FatalError(
                    f"{waiting:,} live seeds are waiting: let the hive run, then push the rest."
                )

        try:
            runner.run(check(client))
            yield push_items
        finally:
            runner.run(close(client))
            if server is not None:
                runner.run(redis.end())
                server.wait()

"""Sends commands: to a crawl of one process through its socket, to a hive through its Redis.

For ``refetch`` and ``due``, the URLs to visit are looked up here in the log of finished URLs, so
that the crawl only has to accept them. URLs that wait already are left out. So after an
interruption the same command sends the remaining ones.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace
from scrapy.settings import Settings

from webcrawl.control.control import CommandAnswer
from webcrawl.control.hive import send_to_hive
from webcrawl.control.table import CommandError, Due, Refetch, parse
from webcrawl.control.unix_socket import send
from webcrawl.crawl.job.control_journal import Change, Request, user_and_machine
from webcrawl.errors import FatalError, StoreAwayError, UnreachableError
from webcrawl.frontier import encode
from webcrawl.hive.bus.live_seeds import SeedSource
from webcrawl.hive.configuration import store_at
from webcrawl.hive.launch.job_directories import is_hive
from webcrawl.hive.membership.asking import ask_hive, hive_name
from webcrawl.hive.membership.connection import check, client_of
from webcrawl.hive.membership.embedded_redis import EmbeddedRedis
from webcrawl.hive.store.store import CheckpointStore
from webcrawl.jobs.inspect.last_lines import LineFilter, OnProgress
from webcrawl.jobs.inspect.requeueing import PutBack, UrlList, answered_filter, push

# Number of visits in one request: an entry has at most 20 kB, and a third more in JSON.
_VISITS_PER_REQUEST = 36
# How long the hive's own Redis may take to load its data.
_REDIS_LOAD_SECS = 60.0
# Maximum number of live seeds that may wait in Redis; each takes 0.3 kB.
_MAX_LIVE_SEEDS = 4_000_000


def send_to_crawl(settings: Settings, request: Request) -> list[CommandAnswer]:
    """Send *request* to the crawl in JOBDIR, and return its answer or those of a hive's drones.

    Blocks until they have answered. If no drone of a hive can be reached, a lasting command is
    written to HIVE_STORE, and the answer says so. Raises FatalError if no crawl is running, or if
    it refuses.
    """
    try:
        command = parse(request.name, request.arguments)
    except CommandError as error:
        raise FatalError(str(error)) from error

    if isinstance(command, Refetch | Due):
        urls = (
            answered_filter(command.what) if isinstance(command, Refetch) else UrlList(command.urls)
        )
        result = visit(settings, request, urls, on_progress=lambda *_: None)
        return [CommandAnswer(f"{request.name}: {result.in_words}")]
    request = _add_sender(request)
    if not (settings.get("HIVE") or is_hive(Path(settings["JOBDIR"]))):
        return [send(Path(settings["JOBDIR"]), request)]

    source = SeedSource.from_settings(settings, "web")
    ask = partial(send_to_hive, request=request, source=source)
    try:
        answers = asyncio.run(ask_hive(hive_name(settings), settings, ask))
    except UnreachableError as error:
        # A one-time command is only for drones that are running.
        if not command.state_key:
            raise
        store = CheckpointStore(url=store_at(Path(settings["JOBDIR"]), settings))
        entry = msgspec.json.encode(request)
        try:
            store.commands.add(command.fill(command.state_key), entry)
        except StoreAwayError:
            raise error from None
        name = Change(request.name, request.arguments, at=0.0, n=0).command
        said = f"{name}: written for drones that read the store; {error}"
        answers = [CommandAnswer(said, refused=True)]
    return answers


def _add_sender(request: Request) -> Request:
    """Return *request* with the user and machine that send it."""
    origin = f"{request.origin or 'scrapy control'}, {user_and_machine()}"
    return replace(request, origin=origin)


def visit(
    settings: Settings, request: Request, line_filter: LineFilter, *, on_progress: OnProgress
) -> PutBack:
    """Have a running crawl visit the finished URLs that *line_filter* accepts.

    A hive need not be running. *request* is the command for which this is done. Raises FatalError.
    """
    jobdir = Path(settings["JOBDIR"])
    if is_hive(jobdir):
        with _live_seeds(settings) as push_items:
            return push(jobdir, line_filter, push_items, on_progress=on_progress)

    def hand_over(entries: list[bytes]) -> None:
        for start in range(0, len(entries), _VISITS_PER_REQUEST):
            send(
                jobdir, Request("visit", {"entries": entries[start : start + _VISITS_PER_REQUEST]})
            )

    result = push(jobdir, line_filter, hand_over, on_progress=on_progress, encode_entry=encode)
    # The command itself makes the checkpoint that saves these visits.
    send(jobdir, _add_sender(request))
    return result


@contextmanager
def _live_seeds(settings: Settings) -> Iterator[Callable[[list[bytes]], None]]:
    """Yield a function that pushes items to the live seeds of a hive.

    If the hive has its own Redis, that is started for as long as needed. Raises FatalError.
    """
    source = SeedSource.from_settings(settings, "web")
    server = None
    with asyncio.Runner() as runner:
        redis = EmbeddedRedis(directory=Path(settings["JOBDIR"]) / "redis")
        if not settings.get("REDIS_URL"):
            # A drone may be running the hive's Redis now.
            if not runner.run(redis.wait(secs=1, is_starting=redis.socket.exists)):
                server = subprocess.Popen(redis.prepare())  # noqa: S603  # our own
            runner.run(redis.wait(secs=_REDIS_LOAD_SECS, is_starting=lambda: True))
        client = client_of(settings, settings.get("REDIS_URL") or redis.url)

        def push_items(items: list[bytes]) -> None:
            waiting = runner.run(client.execute_command(*source.push(items)))
            if waiting > _MAX_LIVE_SEEDS:
                raise FatalError(
                    f"{waiting:,} live seeds are waiting: let the hive run, then push the rest."
                )

        try:
            runner.run(check(client))
            yield push_items
        finally:
            runner.run(client.aclose())
            if server is not None:
                runner.run(redis.end())
                server.wait()

"""Process of the monitor: ``python -m webcrawl.monitor.process``, started by launch.py.

Its standard input has one line, which says what it is to do, and then nothing until whoever started
it ends, or is killed: then it ends, too. Its standard output gets one line: where it serves, or why
it does not. What goes wrong later is in ``JOBDIR/logs/monitor.log``.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web
from scrapy.utils.project import get_project_settings

from webcrawl.clock import now
from webcrawl.configuration.decoding import json_decoder
from webcrawl.errors import FatalError
from webcrawl.monitor.access import Access, is_loopback, token_in
from webcrawl.monitor.launch import MonitorOrder, MonitorPlace
from webcrawl.monitor.site import LOG, UNREADABLE, Site
from webcrawl.monitor.watch import Watch

if TYPE_CHECKING:
    import logging

    from scrapy.settings import Settings

_TOKEN = "monitor.token"  # noqa: S105  # a file's name
_NICE = 10
_MOST_LOGGED = 100
_records = itertools.count()
_decode = json_decoder(MonitorOrder)


def _access_of(settings: Settings, path: Path) -> Access:
    """FatalError, OSError."""
    is_made = not settings["MONITOR_TOKEN_FILE"]
    is_open = is_loopback(settings["MONITOR_HOST"])
    if is_made and not is_open:
        raise FatalError("MONITOR_HOST needs MONITOR_TOKEN_FILE, with a token of yours")
    return Access(token_in(path, is_made=is_made), is_open=is_open, clock=now)


async def _serve(order: MonitorOrder) -> None:
    settings = get_project_settings()
    settings.setdict(order.values, priority="cmdline")
    token = Path(settings["MONITOR_TOKEN_FILE"] or Path(settings["JOBDIR"], _TOKEN))
    access = _access_of(settings, token)
    host, port = str(settings["MONITOR_HOST"]), int(settings["MONITOR_PORT"])
    LOG.addFilter(_is_among_first)
    site = Site(Watch(settings, order.shown), access)
    runner = web.AppRunner(site.app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    server = runner.server
    assert server is not None

    def connected() -> asyncio.Protocol:
        connection = server()
        site.patience.wait(connection)
        return connection

    loop = asyncio.get_running_loop()
    try:
        listening = await loop.create_server(connected, host, port)
    except (OSError, OverflowError):
        listening = await loop.create_server(connected, host, 0)
    _say(MonitorPlace(host, listening.sockets[0].getsockname()[1], str(token)))
    await asyncio.to_thread(sys.stdin.buffer.read)  # until it is closed
    listening.close()
    await runner.cleanup()


def _is_among_first(record: logging.LogRecord) -> bool:
    """Whether *record* is logged: anybody may send many requests that cannot be read. Of each there
    is one short line."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, UNREADABLE):
        record.msg, record.args = "%s: %.200r", (record.getMessage(), error)
        record.exc_info = None
    return next(_records) < _MOST_LOGGED


def _say(place: MonitorPlace) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(place) + b"\n")
    sys.stdout.flush()


def main() -> None:
    """Run it."""
    os.nice(_NICE)
    try:
        asyncio.run(_serve(_decode(sys.stdin.buffer.readline())))
    except (FatalError, OSError) as error:
        _say(MonitorPlace(error=str(error)))


if __name__ == "__main__":
    main()

"""Monitor process: ``python -m webcrawl.monitor.process``, started by launch.py.

It reads one line from standard input, a ``MonitorOrder``, and writes one line to standard output, a
``MonitorAddress``. It ends when standard input is closed, so also when the process that started it
is killed. Later errors are written to ``JOBDIR/logs/monitor.log``.
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
from webcrawl.monitor.launch import MonitorAddress, MonitorOrder
from webcrawl.monitor.site import LOG, UNREADABLE, Site
from webcrawl.monitor.watch import Watch

if TYPE_CHECKING:
    import logging

    from scrapy.settings import Settings

_TOKEN = "monitor.token"  # noqa: S105  # a file's name
_NICE = 10
_MAX_LOGGED = 100
_records = itertools.count()
_decode = json_decoder(MonitorOrder)


def _access_of(settings: Settings, path: Path) -> Access:
    """Return the access control for the token in *path*. Raises FatalError or OSError."""
    is_made = not settings["MONITOR_TOKEN_FILE"]
    is_open = is_loopback(settings["MONITOR_HOST"])
    if is_made and not is_open:
        raise FatalError("MONITOR_HOST is not a loopback address: set MONITOR_TOKEN_FILE")
    return Access(token_in(path, is_made=is_made), is_open=is_open, clock=now)


async def _serve(order: MonitorOrder) -> None:
    settings = get_project_settings()
    settings.setdict(order.values, priority="cmdline")
    token = Path(settings["MONITOR_TOKEN_FILE"] or Path(settings["JOBDIR"], _TOKEN))
    access = _access_of(settings, token)
    host, port = str(settings["MONITOR_HOST"]), int(settings["MONITOR_PORT"])
    LOG.addFilter(_should_log)
    site = Site(Watch(settings, order.shown), access)
    runner = web.AppRunner(site.app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    server = runner.server
    assert server is not None

    def connected() -> asyncio.Protocol:
        connection = server()
        site.timeout.wait(connection)
        return connection

    loop = asyncio.get_running_loop()
    try:
        listening = await loop.create_server(connected, host, port)
    except (OSError, OverflowError):
        listening = await loop.create_server(connected, host, 0)
    _report(MonitorAddress(host, listening.sockets[0].getsockname()[1], str(token)))
    await asyncio.to_thread(sys.stdin.buffer.read)  # until it is closed
    listening.close()
    await runner.cleanup()


def _should_log(record: logging.LogRecord) -> bool:
    """Return whether *record* is among the first hundred; shorten it to one line.

    Without a limit, anyone could fill the disk with unreadable requests.
    """
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, UNREADABLE):
        record.msg, record.args = "%s: %.200r", (record.getMessage(), error)
        record.exc_info = None
    return next(_records) < _MAX_LOGGED


def _report(address: MonitorAddress) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(address) + b"\n")
    sys.stdout.flush()


def main() -> None:
    """Run the monitor until standard input is closed."""
    os.nice(_NICE)
    try:
        asyncio.run(_serve(_decode(sys.stdin.buffer.readline())))
    except (FatalError, OSError) as error:
        _report(MonitorAddress(error=str(error)))


if __name__ == "__main__":
    main()

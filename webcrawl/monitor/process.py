"""Monitor process: ``python -m webcrawl.monitor.process``, started by launch.py.

The process reads one line from standard input, a ``MonitorOrder``, and writes one line to standard
output, a ``MonitorAddress``. It ends when standard input is closed, which also happens when the
process that started it is killed. Later errors are written to ``JOBDIR/logs/monitor.log``, and the
ones before them are in ``monitor.log.1``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from scrapy.utils.project import get_project_settings

from webcrawl.configuration.decoding import json_decoder
from webcrawl.errors import FatalError
from webcrawl.monitor.access import Access, is_loopback, read_token
from webcrawl.monitor.launch import LOG, LOG_BYTES, MonitorAddress, MonitorOrder
from webcrawl.monitor.serving import UNREADABLE, Server
from webcrawl.monitor.site import Site
from webcrawl.monitor.watch import Watch

if TYPE_CHECKING:
    from scrapy.settings import Settings

_TOKEN_FILE = "monitor.token"  # noqa: S105  # this is a file name
_NICE = 10
_decode = json_decoder(MonitorOrder)


def _access_of(settings: Settings, token_file: Path) -> Access:
    """Return the access control that uses the token in *token_file*.

    Raises FatalError or OSError.
    """
    may_create = not settings["MONITOR_TOKEN_FILE"]  # only the default file is created
    is_open = is_loopback(settings["MONITOR_HOST"])
    if may_create and not is_open:
        raise FatalError("MONITOR_HOST is not a loopback address: set MONITOR_TOKEN_FILE")
    return Access(read_token(token_file, may_create=may_create), is_open=is_open)


async def _serve(order: MonitorOrder) -> None:
    """Serve the monitor that *order* describes until standard input is closed."""
    settings = get_project_settings()
    settings.setdict(order.values, priority="cmdline")
    token_file = Path(settings["MONITOR_TOKEN_FILE"] or Path(settings["JOBDIR"], _TOKEN_FILE))
    access = _access_of(settings, token_file)
    host = str(settings["MONITOR_HOST"])
    port = int(settings["MONITOR_PORT"])
    log = RotatingFileHandler(
        Path(settings["JOBDIR"], LOG), maxBytes=LOG_BYTES, backupCount=1, delay=True
    )
    log.addFilter(_shorten)
    logging.getLogger().addHandler(log)
    site = Site(Watch(settings, order.shown), access)
    server = Server(site.app(), site.timeout)
    try:
        port = await server.open(host, port)
    except (OSError, OverflowError):
        port = await server.open(host, 0)  # any free port
    _report(MonitorAddress(host, port, str(token_file)))
    await asyncio.to_thread(sys.stdin.buffer.read)  # returns when standard input is closed
    await server.close()


def _shorten(record: logging.LogRecord) -> bool:
    """Shorten *record* if it is about an unreadable request. Always returns True.

    This is a logging filter.
    """
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, UNREADABLE):
        record.args = (record.getMessage(), error)
        record.msg = "%s: %.200r"
        record.exc_info = None
    return True


def _report(address: MonitorAddress) -> None:
    """Write *address* to standard output, for the process that started this one."""
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

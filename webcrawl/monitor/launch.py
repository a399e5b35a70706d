"""Starts and ends the monitor process (process.py), for a crawl or a hive's supervisor."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from webcrawl.configuration.changed import UNKNOWN, changed_settings
from webcrawl.configuration.decoding import UndecodableError, json_decoder
from webcrawl.configuration.secrets import mask
from webcrawl.configuration.values import port_number
from webcrawl.crawl.job.ports import note_port
from webcrawl.crawl.job.saved_settings import is_plain
from webcrawl.errors import FatalError

#: The log of the process, below the job directory, and the size at which it starts a new one.
LOG = "logs/monitor.log"
LOG_BYTES = 1 << 17
_END_SECS = 5.0
# Number of characters of a setting's value that are shown.
_MAX_SHOWN_CHARS = 400
# Who sets a setting with which priority.
_SOURCES = {
    SETTINGS_PRIORITIES["cmdline"]: "command line (-s)",
    SETTINGS_PRIORITIES["spider"]: "spider",
    SETTINGS_PRIORITIES["project"]: "settings file of the project",
}


#: Columns of the table of settings.
SHOWN = ("setting", "value", "default", "from")


class MonitorOrder(msgspec.Struct):
    """Input of the process: the settings of the crawl, and those that the page shows.

    *values* has the settings by name. Each of *shown* has the columns of ``SHOWN``.
    """

    values: dict[str, Any]
    shown: list[tuple[str, str, str, str]]


class MonitorAddress(msgspec.Struct):
    """Output of the process: its address and token file, or the *error* that stopped it.

    *token* is the path of the token file.
    """

    host: str = ""
    port: int = 0
    token: str = ""
    error: str = ""


_decode = json_decoder(MonitorAddress)


class MonitorProcess:
    """Process with the monitor of the crawl that has these *settings*."""

    def __init__(self, settings: BaseSettings) -> None:
        self._settings = settings
        self._jobdir = Path(settings["JOBDIR"])
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Start the monitor and return a sentence with its address. Blocks for about a second.

        Raises FatalError or OSError.
        """
        settings = self._settings
        wanted_port = port_number(settings, "MONITOR_PORT")
        log = self._jobdir / LOG
        log.parent.mkdir(parents=True, exist_ok=True)
        is_full = log.exists() and log.stat().st_size > LOG_BYTES
        # One arena for all threads saves a third of the memory for a large crawl.
        environment = {"PYTHONPATH": os.pathsep.join(sys.path), "MALLOC_ARENA_MAX": "1"}
        with log.open("wb" if is_full else "ab") as errors:  # a full log starts again
            process = subprocess.Popen(
                [sys.executable, "-m", "webcrawl.monitor.process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=os.environ | environment,
                start_new_session=True,  # Ctrl-C is for the crawl
            )
            self._process = process

        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # the process has ended; its output shows that
            process.stdin.write(msgspec.json.encode(_order_of(settings)) + b"\n")
            process.stdin.flush()
        line = process.stdout.readline() or b'{"error": "it exited immediately"}'
        try:
            address = _decode(line)
        except UndecodableError as error:
            address = MonitorAddress(error=str(error))
        if address.error:
            self.end()
            raise FatalError(f"The monitor did not start: {address.error} (see {log})")

        note_port(self._jobdir, "monitor", address.port)
        host = f"[{address.host}]" if ":" in address.host else address.host
        is_wanted = address.port == wanted_port
        why = "" if is_wanted else f", because MONITOR_PORT {wanted_port} is not available"
        url = f"http://{host}:{address.port}/{why}"
        return f"The monitor is at {url}; its token is in {address.token}"

    def end(self) -> None:
        """End the process immediately. Idempotent."""
        process = self._process
        self._process = None
        if process is None:
            return
        note_port(self._jobdir, "monitor", 0)  # no longer running
        for stream in (process.stdin, process.stdout):
            with suppress(BrokenPipeError):
                stream.close()  # type: ignore[union-attr]  # both are pipes
        try:
            process.wait(_END_SECS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _order_of(settings: BaseSettings) -> MonitorOrder:
    """Return the input of the process for a crawl with *settings*."""
    values = {
        name: value
        for name, value in settings.items()
        if isinstance(name, str) and settings.getpriority(name) and is_plain(value)
    }
    priorities = {str(name): settings.getpriority(name) or 0 for name in settings}
    shown = []
    for name, value, default in changed_settings(settings):
        source = _SOURCES.get(priorities[name], "the crawl itself")
        value_text = str(mask(name, value))[:_MAX_SHOWN_CHARS]
        default_text = "" if default is UNKNOWN else str(mask(name, default))[:_MAX_SHOWN_CHARS]
        shown.append((name, value_text, default_text, source))
    # The settings with the highest priority come first, such as those of the command line.
    shown.sort(key=lambda row: (-priorities[row[0]], row[0]))
    return MonitorOrder(values, shown)

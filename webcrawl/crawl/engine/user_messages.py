"""Messages for the user, written to standard error.

They are also written to the log, if that is a file or JSON lines.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from pathlib import Path
from typing import TextIO

from scrapy.utils.log import get_scrapy_root_handler

from webcrawl.configuration.secrets import masked_url
from webcrawl.crawl.engine.json_log import JsonFormatter
from webcrawl.wording import escape_controls

logger = logging.getLogger(__name__)


def print_and_log(text: str, *, level: int = logging.ERROR) -> None:
    """Write *text* to standard error, and to the log if that is a file or JSON lines.

    Jobs of scrapyd always log to a file.
    """
    print_error(text)
    if _log_is_file() or _log_is_json():
        logger.log(level, "%s", text.rstrip("\n"))


def use_log_level(level: int | str) -> None:
    """Set the level of Scrapy's log."""
    handler = get_scrapy_root_handler()
    if handler is not None:
        handler.setLevel(level)


def print_error(text: str) -> None:
    """Write *text*, which was also logged, to standard error.

    The crawl may outlive its terminal or daemon, so a missing standard error is ignored. Control
    characters, which file names may contain, are escaped, and credentials in URLs are masked. If
    standard error is a log of JSON lines, nothing is written.
    """
    if _log_is_json() and not _log_is_file():
        return
    try:
        sys.stderr.write(escape_controls(masked_url(text)))
        sys.stderr.flush()
    except OSError:
        give_up(sys.stderr)


def give_up(stream: TextIO) -> None:
    """Redirect *stream*, whose terminal or pipe was closed, to the null device.

    Otherwise Python would try to write its buffer again on exit, and exit with an error code.
    """
    with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as null_device:
        os.dup2(null_device.fileno(), stream.fileno())


def _log_is_file() -> bool:
    return isinstance(get_scrapy_root_handler(), logging.FileHandler)


def _log_is_json() -> bool:
    handler = get_scrapy_root_handler()
    return isinstance(handler, logging.StreamHandler) and isinstance(
        handler.formatter, JsonFormatter
    )

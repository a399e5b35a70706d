"""Messages for the user: on standard error, and in the log if that is a file."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from pathlib import Path

from scrapy.utils.log import get_scrapy_root_handler

from webcrawl.wording import visible

logger = logging.getLogger(__name__)


def tell(text: str, *, level: int = logging.ERROR) -> None:
    """Write *text*. A log file, as every job of scrapyd has, gets it too."""
    print_error(text)
    if isinstance(get_scrapy_root_handler(), logging.FileHandler):
        logger.log(level, "%s", text.rstrip("\n"))


def use_log_level(level: int | str) -> None:
    """Log from *level* on, where Scrapy logs."""
    handler = get_scrapy_root_handler()
    if handler is not None:
        handler.setLevel(level)


def print_error(text: str) -> None:
    """Write *text* to standard error, if it is still there: the crawl may outlive its terminal or
    daemon. Control characters are escaped: names of files may have them."""
    try:
        sys.stderr.write(visible(text))
        sys.stderr.flush()
    except OSError:
        # What its buffer still holds would be written again at the end, and give an exit code.
        with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stderr.fileno())

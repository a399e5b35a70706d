"""Messages for the user: on standard error, and in the log if that is a file or of JSON lines."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.utils.log import get_scrapy_root_handler

from webcrawl.configuration.secrets import masked_url
from webcrawl.crawl.engine.json_log import JsonFormatter
from webcrawl.wording import visible

if TYPE_CHECKING:
    from typing import TextIO

logger = logging.getLogger(__name__)


def tell(text: str, *, level: int = logging.ERROR) -> None:
    """Write *text*. A log file, as every job of scrapyd has, gets it too."""
    print_error(text)
    if _log_is_file() or _log_is_json():
        logger.log(level, "%s", text.rstrip("\n"))


def use_log_level(level: int | str) -> None:
    """Log from *level* on, where Scrapy logs."""
    handler = get_scrapy_root_handler()
    if handler is not None:
        handler.setLevel(level)


def print_error(text: str) -> None:
    """Write *text*, which the log has, too, to standard error, if it is still there: the crawl may
    outlive its terminal or daemon. Control characters are escaped, as names of files may have them,
    and credentials of URLs masked. Nothing is written among lines of JSON."""
    if _log_is_json() and not _log_is_file():
        return
    try:
        sys.stderr.write(visible(masked_url(text)))
        sys.stderr.flush()
    except OSError:
        give_up(sys.stderr)


def give_up(stream: TextIO) -> None:
    """The terminal or pipe of *stream* is gone: what its buffer still holds would be written again
    at the end, and give an exit code."""
    with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def _log_is_file() -> bool:
    return isinstance(get_scrapy_root_handler(), logging.FileHandler)


def _log_is_json() -> bool:
    handler = get_scrapy_root_handler()
    return isinstance(handler, logging.StreamHandler) and isinstance(
        handler.formatter, JsonFormatter
    )

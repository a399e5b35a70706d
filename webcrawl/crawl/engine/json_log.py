"""Log in JSON lines, one object for each record (LOG_JSON).

The keys are time (ISO 8601, with the offset of the local time), level, logger, message, and, if
there are any, spider and traceback.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime

from scrapy.settings import Settings
from scrapy.utils import log
from twisted.logger import globalLogBeginner

from webcrawl.configuration.secrets import masked_url

logger = logging.getLogger(__name__)


class JsonFormatter(logging.Formatter):
    """Formats a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return *record* as a JSON object, with credentials in tracebacks hidden."""
        time = datetime.fromtimestamp(record.created).astimezone()
        fields = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (spider := getattr(record, "spider", None)) is not None:
            fields["spider"] = spider.name
        if record.exc_info and record.exc_info[0] is not None:
            fields["traceback"] = masked_url(self.formatException(record.exc_info))
        return json.dumps(fields)


def log_json() -> None:
    """Make this process log in JSON lines.

    The formatter is set in Scrapy's own function, because Scrapy creates its handler up to four
    times.
    """

    def formatter(handler: logging.Handler, settings: Settings) -> logging.Formatter:  # noqa: ARG001  # Scrapy's
        return JsonFormatter()

    if not hasattr(log, "_get_formatter"):
        logger.warning("LOG_JSON has no effect with this version of Scrapy: the log stays text")
        return
    log._get_formatter = formatter
    # Otherwise Twisted would also print its errors as text.
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False)

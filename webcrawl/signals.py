"""Scrapy signals of this crawler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydispatch import dispatcher

if TYPE_CHECKING:
    from scrapy.signalmanager import SignalManager

checkpoint = object()
"""Sent before a checkpoint is published, after its state was taken; may be awaited.

A module that stores pages connects to it and returns only when every page that it has accepted is
fsynced, since the checkpoint marks these pages as done. A handler that raises, or
returns an exception, prevents the checkpoint; the previous one stays live, and an OSError ends the
crawl. Of what is raised Scrapy logs the traceback. The last checkpoint comes after
``close_spider``. No arguments."""

url_finished = object()
"""Sent when a URL has come to its end, with ``url``, ``outcome`` (a name of the table in
docs/stats.md) and ``spider``. Retries are no end, and robots.txt is no URL of the crawl."""

unprocessed = object()
"""Sent with ``page`` and ``why`` when a page that was fetched does not go through the processing
modules: CONTENT_SEEN, another URL's document had the same bytes; ROBOTS, it is a robots.txt;
UNCHANGED, a URL was visited again whose document is as it was, or the server said so. May be
awaited: its URL is not finished before, but for ITEM_TIMEOUT_SECS. An OSError of the disk, as
modules raise it, ends the crawl. The page may be without links."""

CONTENT_SEEN = "content_seen"
ROBOTS = "robots"
UNCHANGED = "unchanged"

JOB_IS_VOID = object()
"""Sent with ``job``, a JOBDIR that was given back and began in this run, which has ended before a
URL was submitted: nothing of it need stay."""

unforeseen = object()
"""Sent when a download handler or a middleware raised an unforeseen exception, with ``url`` and
``failure``."""


def is_heard(signals: SignalManager, signal: object) -> bool:
    """Whether *signal* has a handler: sending one without a handler costs 20 us a page."""
    table = dispatcher.connections
    own, of_any = table.get(id(signals.sender)), table.get(_ANY)
    return bool((own and own.get(signal)) or (of_any and of_any.get(signal)))


_ANY = id(dispatcher.Any)

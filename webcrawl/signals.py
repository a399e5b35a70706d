"""The crawl's own Scrapy signals, and whether anybody listens to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydispatch import dispatcher

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.signalmanager import SignalManager

checkpoint = object()
"""Sent before a checkpoint is published, after its state was taken; may be awaited.

Whoever stores pages connects to it and returns only when every page it has accepted is on the
platter, since the checkpoint will say of these pages that they are done. A handler that raises, or
returns an exception, prevents the checkpoint; the previous one stays live, and an OSError ends the
crawl. Of what is raised Scrapy logs the traceback. The last checkpoint comes after
``close_spider``. No arguments."""

url_finished = object()
"""Sent when a URL has come to its end, with ``url``, ``outcome`` (a name of the table in
docs/stats.md) and ``spider``. Retries are no end, and robots.txt is no URL of the crawl."""


unforeseen = object()
"""Sent when a download handler or a middleware raised what nobody anticipated, with ``url`` and
``failure``."""


def is_heard(signals: SignalManager, signal: object) -> bool:
    """Whether a handler is connected: sending a signal to nobody costs 20 us a page."""
    table = dispatcher.connections
    return bool(
        table.get(id(signals.sender), _NOBODY).get(signal)
        or table.get(id(dispatcher.Any), _NOBODY).get(signal)
    )


_NOBODY: Mapping[object, Any] = {}

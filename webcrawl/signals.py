"""Signals that the crawl sends through Scrapy."""

from __future__ import annotations

from pydispatch import dispatcher
from scrapy.signalmanager import SignalManager

#: Sent when a checkpoint's state was captured, before it is published.
#:
#: A module that stores pages connects a handler, which may be a coroutine. It returns only when
#: every page that the module has accepted is fsynced, because the checkpoint marks these pages as
#: done. A handler that raises or returns an exception prevents the checkpoint, and the previous one
#: stays valid. An OSError ends the crawl. Scrapy logs the traceback. The last checkpoint comes
#: after ``close_spider``. No arguments.
checkpoint = object()

#: Sent when a URL is finished, with ``url``, ``outcome`` (see the table in docs/reference/stats.md)
#: and ``spider``. Not sent for a failed attempt that will be retried, or for robots.txt.
url_finished = object()

#: Sent with ``page`` and ``why`` when a fetched page skips the processing modules.
#:
#: ``why`` is CONTENT_SEEN if another URL's document had the same bytes, ROBOTS for a robots.txt,
#: SUBRESOURCE for what a page needs to be rendered, and UNCHANGED if a repeat visit found the same
#: document, or the server said so. Handlers may be coroutines: the URL is finished after they
#: return, or after ITEM_TIMEOUT_SECS. An OSError of the disk ends the crawl, as in modules. The
#: page may have no links.
unprocessed = object()

CONTENT_SEEN = "content_seen"
ROBOTS = "robots"
SUBRESOURCE = "subresource"
UNCHANGED = "unchanged"

#: Sent with ``job``, a new JOBDIR that was closed before any URL was submitted.
#:
#: Nothing in it needs to be kept.
JOB_IS_VOID = object()

#: Sent with ``url`` and ``failure`` when a download handler or middleware raised an unexpected
#: exception.
unforeseen = object()


def has_receivers(signals: SignalManager, signal: object) -> bool:
    """Return whether *signal* has a handler.

    Asking first saves the 20 us per page that sending a signal without handlers would cost.
    """
    connections = dispatcher.connections
    own_signals = connections.get(id(signals.sender), {})
    any_sender_signals = connections.get(_ANY, {})
    return bool(own_signals.get(signal) or any_sender_signals.get(signal))


_ANY = id(dispatcher.Any)

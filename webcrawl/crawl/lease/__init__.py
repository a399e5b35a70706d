"""Lease: one URL from the frontier to its host, and back.

::

    Dispatcher.dispatch     the next URL that may be fetched; its host's robots.txt before it
         |                  LeaseRequests: its Request, plain or from the RequestCodec
    MercatorDownloader      sends it; `Fetch` holds what the download knows
         |
    HostRelease             the contact is over: how long the host pauses, what robots.txt says
         |
    page_of                 the response becomes a Page
         |
    Completion              the URL is finished, retried, put back or dropped;
                            OutcomeLog: one line for each URL

`ProcessServices` are the rules that every contact follows and the parts it reports to. Requests
that a callback, a pipeline or a middleware sends with ``engine.download_async`` wait in their
host's queue like any URL (side_downloads.py).

A lease exists in memory only: what it needs after a crash is in the frontier's snapshot and done
log.
"""

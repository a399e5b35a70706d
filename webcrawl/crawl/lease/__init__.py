"""Leases: the life of one URL from the frontier to its host, and back.

Dispatcher and Completion, at both ends, are beside this package.

::

    Dispatcher.dispatch     decides whether the URL, or first its host's robots.txt, is fetched
         |                  LeaseRequests: make its Request, or restore it with the RequestCodec
    MercatorDownloader      sends it; `Fetch` holds the facts of the download
         |
    HostRelease             starts the host's pause, and stores the rules of its robots.txt
         |
    page_of                 turns the response into a Page
         |
    Completion              finishes the URL, retries it, puts it back or drops it;
                            OutcomeLog writes one line for each URL

`ProcessServices` are the rules that every contact follows and the parts it reports to. Requests
that a callback, a pipeline or a middleware sends with ``engine.download_async`` wait in their
host's queue like any URL (task/side_downloads.py).

A lease exists in memory only. After a crash, its URL is found in the frontier's snapshot and done
log.
"""

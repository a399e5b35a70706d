"""webcrawl: a crawl of a large part of the web, as a Scrapy project, the way Mercator did it.

Scrapy is the engine. The scheduler is Mercator's frontier, the dupefilter its duplicate URL
eliminator, item pipelines its processing modules, download handlers its protocol modules,
extensions its background thread. One URL's life, room by room::

    seeds ─┐
           ▼
    crawl/links/submission.py ──► seen/  eliminator ──► frontier/  front end ─► back end ─► acquire
       ▲         (only new URLs, in first-seen order)                        │
       │                                                                     ▼
    spiders/web.py ◄── content-seen test ◄── net/ fetch ◄── crawl/lease/dispatcher.py ── hosts/
       │                                       │            (lease)          (exclusions, address,
       ▼                                       ▼                              guard, robots.txt)
    pipelines/  WARC, yours                 release: the host's pause begins

Imports point downwards only: spiders, extensions, commands -> scheduler, jobs -> crawl ->
dupefilter, hosts -> frontier | seen | net | pipelines -> storage, items -> urls, configuration,
clock, errors. ``frontier`` and ``seen`` do not know each other, ``simweb`` knows nothing of the
crawler. tests/test_imports.py holds this; docs/architecture.md has the whole.

What always holds:

* No host is contacted by two requests at once, nor before its rest is over, restarts included.
* No loopback, private or otherwise special address is contacted unless a setting allows it.
* A URL is unknown, waiting, ready, in process (leased) or finished, and never lost: whatever is
  answered for is in a log first.
* Frontier entries are durable before the fingerprints that would hide them.
* Memory is bounded by settings; nothing holds the reactor for long.
"""

import sys

if sys.platform == "win32":
    sys.stderr.write(
        "webcrawl runs on Linux, and not on Windows, whose file locks and signals are others: use "
        "WSL 2 or a virtual machine.\n"
    )
    sys.exit(2)

__version__ = "0.3"

"""webcrawl: a crawler for a large part of the web, as a Scrapy project designed like Mercator.

Scrapy is the engine. The scheduler is Mercator's frontier, the dupefilter its duplicate URL
eliminator, item pipelines its processing modules, download handlers its protocol modules,
extensions its background thread. The life of one URL, package by package::

    seeds ─┐
           ▼
    crawl/links/submission.py ──► seen/  eliminator ──► frontier/  front end ─► back end ─► acquire
       ▲         (only new URLs, in first-seen order)                        │
       │                                                                     ▼
    spiders/web.py ◄── content-seen test ◄── net/ fetch ◄── crawl/dispatcher.py ── hosts/
       │                                       │            (lease)          (exclusions, address,
       ▼                                       ▼                              guard, robots.txt)
    pipelines/  WARC, yours                 release: the host's pause begins

Imports point downwards only: spiders, extensions, commands -> scheduler, jobs -> crawl ->
dupefilter, hosts -> frontier | seen | net | pipelines -> storage, items -> urls, configuration,
clock, errors. ``frontier`` and ``seen`` do not know each other; ``simweb`` knows nothing of the
crawler. tests/test_imports.py enforces this; docs/why/architecture.md has the full picture.

What always holds:

* A host gets one request at a time, and none before its pause has passed, even after a restart.
* No loopback, private or otherwise special address is contacted unless a setting allows it.
* A URL is unknown, waiting, ready, in process (leased) or finished, and never lost: every change is
  logged before it is acknowledged.
* Frontier entries are durable before the fingerprints that would hide them.
* Memory is bounded by settings; nothing blocks the reactor for long.
"""

import re
import sys

if sys.platform == "win32":
    sys.stderr.write(
        "webcrawl does not run on Windows, whose file locks and signals differ from Linux's: use "
        "WSL 2 or a virtual machine.\n"
    )
    sys.exit(2)

# Possessive quantifiers match wrongly before 3.11.5 (cpython#106052), except in the Python 3.11.2
# of Debian 12 with its security updates, from 3.11.2-6+deb12u9 on.
possessive_match = re.match("(?:ab?c)++", "aca")
if possessive_match is None or possessive_match.group() != "ac":
    sys.stderr.write(
        "webcrawl needs Python 3.11.5 or newer, or the 3.11.2 of Debian 12 with its security "
        "updates (apt upgrade), as regular expressions of older ones match wrongly.\n"
    )
    sys.exit(2)

__version__ = "0.5"

"""Seed lists: URLs read from files or standard input, with a cursor that survives a restart.

The spider reads them in slices when the crawl has room, and saves ``snapshot()`` in each
checkpoint. Invariant: the seeds read before a snapshot and those read after reopening it are
together the whole list, in order. After a crash, the seeds read after the last snapshot are read
again, so none is missed.

A source is a UTF-8 text file or ``-``, standard input; gzip is recognised by content, not by name.
Each line has one seed: ``rank,domain`` (quoted or not, with or without a header line), a domain or
a URL. A ``#`` at the start of a line or after white space starts a comment.
"""

from __future__ import annotations

from webcrawl.crawl.seeds.seed_line import BadLine, parse_line
from webcrawl.crawl.seeds.seed_reader import Seed, SeedReader, SeedsError, split_sources

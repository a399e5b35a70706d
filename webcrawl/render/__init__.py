"""Engines that render pages, without a network and without files.

A pass renders a stored document with stored answers (``engine.py``). What the page requests and the
store does not have is returned as missing, so that the crawl can fetch it like any URL; then comes
the next pass. No engine ever contacts a server:

- It runs in a network namespace without a network, and sees one directory of its own
  (``isolation.py``). Where namespaces are not allowed, the engine's own rules have to do.
- At the start of a crawl a hostile page tries to get out (``hostile_check.py``).
- All of its requests are answered by the worker process that drives it (``worker.py``). A pass that
  exceeds its bounds ends, and the engine is replaced.

``chromium.py`` drives Chromium. Another engine is a class with the three methods of ``Engine``.
"""

"""The crawl's own Scrapy signals."""

from __future__ import annotations

checkpoint = object()
"""Sent before a checkpoint is published, after its state was taken; may be awaited.

Whoever stores pages connects to it and returns only when every page it has accepted is on the
platter, since the checkpoint will say of these pages that they are done. A handler that raises
prevents the checkpoint; the previous one stays live. No arguments."""

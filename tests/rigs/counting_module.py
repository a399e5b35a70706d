"""A processing module that keeps the URLs of all its pages in its saved state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from webcrawl.pipelines.module import ProcessingModule

if TYPE_CHECKING:
    from webcrawl.items import Page


class PageCounter(ProcessingModule):
    """Writes them to JOBDIR/counted.json at the end of each run."""

    statuses = frozenset()

    def __init__(self) -> None:
        self.urls: list[str] = []

    def process(self, page: Page) -> None:
        self.urls.append(page.url)

    def state(self) -> bytes:
        return json.dumps(self.urls).encode()

    def restore(self, saved: bytes) -> None:
        self.urls = json.loads(saved)

    def close(self) -> None:
        assert self.jobdir is not None
        (self.jobdir / "counted.json").write_text(json.dumps(self.urls))

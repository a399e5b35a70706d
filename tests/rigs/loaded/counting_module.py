"""A processing module that keeps the URLs of all its pages in its saved state."""

import json

from webcrawl.pipelines.module import ProcessingModule


class PageCounter(ProcessingModule):
    """Writes them to JOBDIR/counted.json at the end of each run."""

    statuses = frozenset()

    def __init__(self):
        self.urls = []

    def process(self, page):
        self.urls.append(page.url)

    def state(self):
        return json.dumps(self.urls).encode()

    def restore(self, saved):
        self.urls = json.loads(saved)

    def close(self):
        assert self.jobdir is not None
        (self.jobdir / "counted.json").write_text(json.dumps(self.urls))

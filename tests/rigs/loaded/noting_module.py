"""A processing module that notes what each page links to, also without its scripts, and shows."""

import json
import re

from lxml import html

from webcrawl.pipelines.module import ProcessingModule
from webcrawl.urls.extraction.html import extract

_UNSHOWN = "//script | //style | //noscript"


def words_of(text):
    """The words of *text*."""
    return set(re.findall(r"\w+", text))


class Notes(ProcessingModule):
    """Writes a line of JSON for each page to JOBDIR/noted.jsonl."""

    content_types = ("text/html",)

    def open(self):
        assert self.jobdir is not None
        self._file = (self.jobdir / "noted.jsonl").open("a")

    def process(self, page):
        tree = html.document_fromstring(page.text or "<p>")
        for element in tree.xpath(_UNSHOWN):
            element.drop_tree()
        fetched = extract(page.body, url=page.url, charset=page.charset, limit=10_000).links
        noted = {
            "url": page.url,
            "links": sorted({link.url for link in page.links}),
            "words": sorted(words_of(" ".join(tree.xpath("//text()")))),
            "without_scripts": sorted({link.url for link in fetched}),
        }
        print(json.dumps(noted), file=self._file)

    def close(self):
        self._file.close()

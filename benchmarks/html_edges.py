"""The link graph of directories of HTML as an edge list: `python benchmarks/html_edges.py DIR...`

Each directory is a host of its name, such as Debian's documentation packages unpacked with
``dpkg -x PACKAGE.deb PACKAGE``. Writes ``source target`` lines for `scrapy urltrace --crawl`: links
as a crawl finds them, each URL once a page.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from webcrawl.net.limits import PAGE_MAX_BYTES
from webcrawl.urls.extraction.html import extract


def main() -> None:
    for name in sys.argv[1:]:
        directory = Path(name)
        for path in sorted(directory.rglob("*.htm*")):
            if path.is_symlink() or not path.is_file():
                continue
            relative = path.relative_to(directory).as_posix()
            url = f"http://{directory.name}/{quote(relative)}"
            body = path.read_bytes()[:PAGE_MAX_BYTES]
            for link in extract(body, url=url, charset=None, limit=20_000).links:
                print(_page(url), _page(link.url))


def _page(url: str) -> str:
    """*url* as those that mean the same page write it."""
    return url.removesuffix("index.html")


if __name__ == "__main__":
    main()

"""The link graph of directories of HTML as an edge list: `python benchmarks/html_edges.py DIR...`

Each directory is a host of its name, such as Debian's documentation packages unpacked with
``dpkg -x PACKAGE.deb PACKAGE``. Writes ``source target`` lines for crawl_graph.py: links
as a crawl finds them, each URL once a page. How many each page has in common with the one before
it, a host's menus, is said for each directory.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from webcrawl.urls.extraction.html import extract


def main() -> None:
    for name in sys.argv[1:]:
        directory = Path(name)
        before: set[str] = set()
        pages = links = shared = 0
        for path in sorted(directory.rglob("*.htm*")):
            if path.is_symlink() or not path.is_file():
                continue
            url = f"http://{directory.name}/{quote(path.relative_to(directory).as_posix())}"
            body = path.read_bytes()[: 5 << 20]
            found = extract(body, url=url, charset=None, limit=20_000).links
            targets = dict.fromkeys(_page(link.url) for link in found)
            for target in targets:
                print(_page(url), target)
            pages += bool(targets)
            links += len(targets)
            shared += len(before & targets.keys())
            before = set(targets)
        print(
            f"{directory.name}: {pages:,} pages with links, {links / max(pages, 1):.1f} each; "
            f"{shared / max(links, 1):.0%} of them are on the page before, too",
            file=sys.stderr,
        )


def _page(url: str) -> str:
    """*url* as those that mean the same page write it."""
    return url.removesuffix("index.html")


if __name__ == "__main__":
    main()

"""Broken pages and their links, from tests/data/broken_pages.toml.

``whole`` makes of one a page of ordinary length with that in its middle. Read by the tests and by
benchmarks/bench_extraction.py.
"""

from wire_text import table, wire

URL = "http://a.test/dir/page.html"

PAGES = {name: (wire(page), links) for name, (page, links) in table("broken_pages").items()}


def whole(page):
    """*page* in the middle of a page of some 20 kB with 40 links: as long as pages of the web were
    in Mercator's days, and a tenth of today's."""
    return _BEFORE.encode() + page + _AFTER.encode()


_TEXT = (
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt. "
)
_BEFORE = (
    "<!DOCTYPE html><html lang=en><head><title>A page</title><link rel=stylesheet href=/s.css>"
    "<script src=/s.js></script></head><body><ul class='menu menu-main'>"
    + "".join(
        f"<li class=item><a class='menu-link' href='/menu/{n}/'>Part {n}</a></li>"
        for n in range(20)
    )
    + "</ul><main>"
    + "".join(f"<p id=p{n}>{_TEXT * 4}</p>" for n in range(20))
)
_AFTER = (
    "".join(
        f"<p>{_TEXT * 4}<a href='article-{n}.html?from=here'>Article {n}</a>"
        f"<img src=/img/{n}.png alt='Picture {n}'></p>"
        for n in range(20)
    )
    + "</main><footer><p>The end</footer></body></html>"
)

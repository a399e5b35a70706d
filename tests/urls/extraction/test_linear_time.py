"""Readers of fetched bytes take time in proportion to the bytes, whatever these are.

A regular expression or a loop that looks at the same bytes again for each opening, quote, escape or
name takes eight times as long for each byte of an input eight times as long.
"""

import time
from collections import deque
from functools import partial

from strategies import some_of
from text_tables import each, pieces

from webcrawl.hosts.robots.rules import RobotsRules
from webcrawl.net.content_type import content_type_of
from webcrawl.net.ftp import listing as ftp_listing
from webcrawl.net.gopher import menu as gopher_menu
from webcrawl.rights import statements as statements_module
from webcrawl.urls.equivalence import RULES, Equivalence
from webcrawl.urls.extraction import charset, thinning
from webcrawl.urls.extraction.css import iter_css_links
from webcrawl.urls.extraction.document import MarkupDocument, resolve_links
from webcrawl.urls.extraction.feeds import iter_feed
from webcrawl.urls.extraction.header_links import extract_header_links
from webcrawl.urls.extraction.html import extract
from webcrawl.urls.extraction.kinds import KINDS
from webcrawl.urls.extraction.markup import root_of
from webcrawl.urls.extraction.pdf import iter_pdf
from webcrawl.urls.extraction.references import refresh_target, srcset_references
from webcrawl.urls.extraction.robots_meta import robots_directives
from webcrawl.urls.extraction.sitemap_reader import iter_sitemap
from webcrawl.urls.filters.chain import SplitUrl
from webcrawl.urls.filters.path_filters import action_filter, calendar_filter, listing_sort_filter
from webcrawl.urls.filters.pattern import patterns_of
from webcrawl.urls.host import host_of, origin_of
from webcrawl.urls.normalizer import normalize

URL = "http://a.test/dir/page"
SCHEMES = frozenset({"http", "ftp", "gopher"})
EQUIVALENCE = Equivalence(RULES)
# Shorter input may take a quicker way: 8 KiB of ``<meta charset`` a third of the time for a byte.
SHORT, LONG = 1 << 14, 1 << 17
# Of the time for each byte; what grows with the square has eight.
MAX_GROWTH = 3
# Below, an input of 1 MiB that took time with the square would take 4 s, and none does. A
# quarter of the input and a half, in which this is a sixteenth and a quarter, are looked at first.
QUICK_SECS = 0.06


# Pages of less are not thinned, but for their tags.
PADDING = b" " * thinning.SAFE_BYTES


def html(body):
    extract(PADDING + body, url=URL, charset=None, limit=5000, meta_names=frozenset({"robots"}))


def html_with_everything(body):
    extract(
        PADDING + body,
        url=URL,
        charset="utf-8",
        limit=5000,
        kinds=KINDS,
        schemes=SCHEMES,
        keeps_repeats=True,
    )


def within(extractor, before, body):
    deque(resolve_links(extractor(MarkupDocument(before + body, URL)), URL, limit=5000), maxlen=0)


def lines(read, before, count, body):
    """*count* of them, as long as those that are read may be."""
    read(b"\n".join([before + body[: len(body) // count - len(before) - 1] + b"!"] * count))


def listing(machine, body):
    deque(map(ftp_listing.row_of, ftp_listing.entries(body, is_mlsd=machine)), maxlen=0)


def menu(body):
    deque(map(gopher_menu.row_of, gopher_menu.items(body)), maxlen=0)


def url(before, body):
    text = before + body.decode("latin-1")
    normalize(text, URL, schemes=SCHEMES)
    host_of(text), origin_of(text), patterns_of(text), EQUIVALENCE.comparison_form(text)


def url_filters(body):
    text = body.decode("latin-1")
    calendar_filter(2027).refuses(SplitUrl(f"http://a.test/2031{text}", "", ""))
    action_filter().refuses(SplitUrl("", "", text))
    listing_sort_filter().refuses(SplitUrl("", "", f"C=N{text}"))


def statements(body):
    # Called directly, because only the first part of a page is read.
    deque(statements_module._in_head(body, ("x",)), maxlen=0)
    deque(statements_module._in_licence(body), maxlen=0)


READERS = {
    "html": html,
    "html with everything": html_with_everything,
    "css": partial(within, iter_css_links, b""),
    "feed": partial(within, iter_feed, b"<rss><item><title>"),
    "feed, attributes": partial(within, iter_feed, b"<rss><link "),
    "sitemap": partial(within, iter_sitemap, b"<urlset><url><loc>"),
    "sitemap, CDATA": partial(within, iter_sitemap, b"<loc><![CDATA["),
    "sitemap, attributes": partial(within, iter_sitemap, b"<urlset><url><link "),
    "list of URLs": partial(within, iter_sitemap, b"http://a.test/"),
    "PDF": partial(within, iter_pdf, b""),
    "PDF, target": partial(within, iter_pdf, b"/URI ("),
    "root": lambda body: root_of(MarkupDocument(body, URL)),
    "charset": partial(charset.detect, declared=None),
    "header links": lambda body: extract_header_links([body], body, url=URL, limit=5000),
    "X-Robots-Tag": lambda body: robots_directives(tokens=("webcrawl",), headers=[body]),
    "rights": statements,
    "refresh": lambda body: refresh_target(body.decode("latin-1")),
    "srcset": lambda body: deque(srcset_references(body.decode("latin-1")), maxlen=0),
    "content type": lambda data: content_type_of((data,)),
    "host": partial(url, "http://"),
    "path": partial(url, "http://a.test/"),
    "query": partial(url, "http://a.test/?"),
    "gopher": partial(url, "gopher://a"),
    "url filters": url_filters,
    "robots.txt": lambda body: (
        RobotsRules.parse(b"User-agent: *\n" + body, tokens=("x",)).decide(URL).allow
    ),
    "robots.txt, rule": lambda body: (
        RobotsRules.parse(b"User-agent: *\nDisallow:" + body, tokens=("x",)).decide(URL).allow
    ),
    "LIST": partial(lines, partial(listing, False), b"-rw-r--r-- 1 x", 64),
    "MLSD": partial(lines, partial(listing, True), b"size=1;", 64),
    "menu": partial(lines, menu, b"0", 32),
    "menu, host": partial(lines, menu, b"0\t/\t", 32),
    "menu, link": partial(lines, menu, b"hx\tURL:", 32),
    "menu's error": gopher_menu.is_error,
}
ATTACKS = [
    *pieces(r"""
    < > </ <a <a_ <a_href= <a_href=' <a_href=" <a_b' <!-- <! <? --!> <![CDATA[ ]]> <script>
    </script <style> <title> <noscript> <meta_ <meta_charset <?xml_ <svg><title/> <math> <base_href=
    <template> <p><template_shadowrootmode=open> </template> <td_background=x>
    <svg><base_href=x> <img_srcset=' <p_style='url( <item> <loc> <loc_a=' <entry_xml:base='
    <iframe_src= " ' '" \ \" \' = x x_ x= x=' x="y" x: _ & &amp; &#1 url( url(_ url(' url("\
    @import @import_ @import_" /* */ * \a_ ( ) /(a(b)) , ; ;_x= ;"\ <x>; : :: 1_ 0 0. 1x,_
    20 2031- ?date % %2 %41 . a. ../ // ? # @ [ $ a* - é ;s= ;P= C=N; _Jan__ Jan_1_2020_
    Disallow /URI_( /URI(x() /URI< /ObjStm
    """),
    *("\t", "\n", "\r", "\0", "\ufeff", "\x1b$B"),
    *("User-agent: x\n", "Allow: /*a$\n", "Crawl-delay: 1\n", "/ObjStm stream\n"),
]


def growth(read, unit):
    """How many times as long as a byte of a short body of *unit* each of a long one takes."""

    def secs(size, runs):
        body, taken = unit * (size // len(unit)), []
        for _ in range(runs):
            started = time.process_time()
            read(body)
            taken.append(time.process_time() - started)
        return min(taken)

    for part in (4, 2, 1):
        if (slow := secs(LONG // part, 1)) < QUICK_SECS / part**2:
            return 0
    return min(slow, secs(LONG, 2)) / secs(SHORT, 3) / (LONG / SHORT)


@each("number", *range(len(READERS)), ids=READERS)
def test_time_for_a_byte_does_not_grow(number):
    """In every run a third of the attacks on each reader, and other ones on the next."""
    read = [*READERS.values()][number]
    for attack in some_of(ATTACKS[number:] + ATTACKS[:number]):
        assert growth(read, attack.encode()) < MAX_GROWTH, repr(attack)

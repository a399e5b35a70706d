"""How early a search finds the right page, judged by the general indexes of documentation.

    PYTHONPATH=. OPENBLAS_NUM_THREADS=1 python benchmarks/search_quality.py WORK [fit ...]

Needs Debian's packages in SITES. Each package is a site with its own host, and four sets of sites
are crawled into WORK, unless that was done before. An entry of a general index is a query: its
words, and the pages that it names. Indexes, tables of contents and search pages are not served, so
that they are neither found nor sources of anchor texts.

``fit fit-others fit-items`` searches the weights on the sets of these names, whose queries are of
other sites than those of the two judged sets.
"""

from __future__ import annotations

import posixpath
import random
import re
import sqlite3
import sys
import time
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.extend(map(str, Path(__file__).parents[1].glob("tests/rigs/*/")))

import numpy as np
import tantivy
from lxml import html
from virtual_sites import VirtualSites

from webcrawl.jobs.search import search
from webcrawl.pipelines.link_database import edge_directories
from webcrawl.pipelines.search_fields import (
    ANCHORS,
    NAMES,
    PRIOR,
    TEXT_FIELDS,
    WEIGHTS,
    name_of,
    open_index,
)
from webcrawl.pipelines.search_ranks import add_links

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Find = Callable[[str], list[str]]

DOC = Path("/usr/share/doc")
MOST_QUERIES = 250
# Number of queries of each set that the weights are fitted on.
FITTED_QUERIES = 750
# No field is without weight, because other pages are found by other fields.
LEAST = 0.25
# The fields; the text of a page is in one of TEXT_FIELDS. The first one's weight is not fitted,
# because the sites of the sets to fit on hardly link to each other.
FIELDS = {
    ANCHORS: [ANCHORS],
    **{name: [name] for name in WEIGHTS if name not in (ANCHORS, *TEXT_FIELDS)},
    "text": [*TEXT_FIELDS],
}
#: What is fitted: weights of fields, and of what else adds to a score.
FITTED = [*FIELDS, "name"][1:]


class Site(NamedTuple):
    """Where the pages of a package are, here and on the web, and the prefixes of older links."""

    folder: str
    base: str
    aliases: tuple[str, ...] = ()


SITES = {
    "python": Site(
        "python3.11/html",
        "docs.python.org/3/",
        ("/usr/share/doc/python3-doc/html/", "http://docs.python.org/dev/"),
    ),
    "postgresql": Site("postgresql-doc-15/html", "www.postgresql.org/docs/current/"),
    "rust": Site("rust-doc/html", "doc.rust-lang.org/"),
    "django": Site("python-django-doc/html", "docs.djangoproject.com/en/stable/"),
    "sqlalchemy": Site("python-sqlalchemy-doc/html", "docs.sqlalchemy.org/en/latest/"),
    "flask": Site("python-flask-doc/html", "flask.palletsprojects.com/"),
    "werkzeug": Site("python-werkzeug-doc/html", "werkzeug.palletsprojects.com/"),
    "jinja": Site(
        "python-jinja2-doc/html", "jinja.palletsprojects.com/", ("http://jinja.pocoo.org/",)
    ),
    "click": Site("python-click-doc/html", "click.palletsprojects.com/"),
    "wtforms": Site("python-wtforms-doc/html", "wtforms.readthedocs.io/"),
    "aiohttp": Site("python-aiohttp-doc/html", "docs.aiohttp.org/en/stable/"),
    "yarl": Site("python-yarl-doc/html", "yarl.aio-libs.org/en/stable/"),
    "attrs": Site("python-attr-doc/html", "www.attrs.org/en/stable/"),
    "requests": Site("python-requests-doc/html", "requests.readthedocs.io/en/latest/"),
    "cryptography": Site("python-cryptography-doc/html", "cryptography.io/en/latest/"),
    "openssl": Site("python-openssl-doc/html", "www.pyopenssl.org/en/stable/"),
    "celery": Site(
        "python-celery-doc/html",
        "docs.celeryq.dev/en/stable/",
        ("http://docs.celeryproject.org/en/master/",),
    ),
    "kombu": Site("python-kombu-doc/html", "kombu.readthedocs.io/en/latest/"),
    "scrapy": Site("python-scrapy-doc/html", "docs.scrapy.org/en/latest/"),
    "setuptools": Site("python-setuptools-doc/html", "setuptools.pypa.io/en/latest/"),
    "structlog": Site("python-structlog-doc/html", "www.structlog.org/en/stable/"),
    "sphinx": Site("sphinx-doc/html", "www.sphinx-doc.org/en/master/"),
    "hypothesis": Site("python-hypothesis-doc/html", "hypothesis.readthedocs.io/en/latest/"),
    "scipy": Site("python-scipy-doc/html", "docs.scipy.org/doc/scipy/"),
    "apache": Site("apache2-doc/manual/en", "httpd.apache.org/docs/2.4/en/"),
    "glib": Site("/usr/share/gtk-doc/html", "docs.gtk.org/"),
    "commons": Site("libcommons-lang3-java/api", "commons.apache.org/proper/commons-lang/"),
}
# The lists of terms of those that were not made with Sphinx.
_LISTS = {
    "apache": ("mod/directives.html",),
    "glib": tuple(f"{part}/api-index-full.html" for part in ("glib", "gobject", "gio")),
    "commons": ("index-all.html",),
    "rust": ("std/all.html", "alloc/all.html"),
}
SMALL = "flask werkzeug jinja click wtforms"
#: The sites of each set; the general indexes of the first ones, up to ";", are its queries. The
#: small one is for a test.
SETS = {
    "general": "python postgresql rust ;",
    "linked": f"python postgresql django sqlalchemy {SMALL} ;",
    "small": f"{SMALL} ;",
    "fit": "aiohttp yarl attrs requests cryptography openssl celery kombu scrapy "
    "structlog sphinx hypothesis ; python setuptools",
    "fit-others": "apache glib commons ;",
    "fit-items": "scipy ;",
}
# Pages that are not served: copies, sources, indexes, tables of contents, and search pages.
_LEFT_OUT = re.compile(
    r"(core|src|_modules|_sources)/.*"
    r"|(.*/)?(genindex.*|bookindex|api-index-[^/]*|index-[^/]*|[^/]*-index|[^/]*-tree|all[a-z-]*"
    r"|directives|quickreference|directive-dict|contents|(py-)?modindex|search"
    r"|print|toc|404|settings|help|index)\.html"
)
# Only these have tables of contents as index.html; those of rust are pages about modules.
_MODULE_INDEX = re.compile(r"(std|alloc|test|proc_macro)/.*index\.html")
# Words in the brackets of an entry that say what kind of thing it is.
_KINDS = {
    "in", "module", "class", "method", "static", "attribute", "built", "function", "exception",
    "option", "C", "type", "macro", "member", "var",
}  # fmt: skip
_WORD = re.compile(r"\w+")
_BRACKETS = re.compile(r"\(([^()]+)\)$")


class Query(NamedTuple):
    """The words of an entry of an index, and the URLs of its pages."""

    words: str
    right: frozenset[str]


def files_of(name: str) -> dict[str, str]:
    """The served pages of the site *name* by their URLs without the scheme."""
    folder, base, _ = SITES[name]
    directory = DOC / folder
    assert directory.is_dir(), f"apt-get install the package with {directory}"
    paths = {file.relative_to(directory).as_posix(): file for file in directory.rglob("*.html")}
    return {
        base + path: file.read_text("utf-8", "replace")
        for path, file in sorted(paths.items())
        if not _LEFT_OUT.fullmatch(path) or _MODULE_INDEX.fullmatch(path)
    }


def served(names: list[str]) -> dict[str, str]:
    """All pages, redirects and sitemaps of the sites *names*, as ``VirtualSites`` takes them."""
    found: dict[str, str] = {}
    prefixes: dict[str, str] = {}
    for name in names:
        _, base, aliases = SITES[name]
        host = base.partition("/")[0]
        prefixes |= {f"https://{host}/": f"http://{host}/"}
        prefixes |= dict.fromkeys(aliases, f"http://{base}")
    pattern = re.compile("|".join(map(re.escape, prefixes)))
    for name in names:
        base = SITES[name].base
        host = base.partition("/")[0]
        pages = {}
        for url, text in files_of(name).items():
            path = url.removeprefix(host)
            pages[path] = pattern.sub(lambda match: prefixes[match[0]], text)
        locations = "".join(f"<url><loc>http://{host}{path}</loc></url>" for path in pages)
        # A page has a second address without ".html", as on the web.
        pages |= {
            f"{path[:-5]}/": f"HTTP/1.1 301 Moved\r\nLocation: {path}"
            for path in pages
            if path.endswith(".html")
        }
        pages |= {
            "/robots.txt": f"User-agent: *\nDisallow:\nSitemap: http://{host}/map.xml\n",
            "/map.xml": "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>"
            f"{locations}</urlset>",
            "/": "<a href=/map.xml>list</a>",
        }
        found |= {f"{host}:80{path}": text for path, text in pages.items()}
    return found


def entries_of(name: str) -> Iterator[tuple[str, str]]:
    """Yield the text and the link of each entry of the general index of the site *name*."""
    directory = DOC / SITES[name].folder
    if name in _LISTS:
        for listing in _LISTS[name]:
            for link in html.parse(directory / listing).xpath("//li/a | //dt//a[1]"):
                href = f"{listing.rpartition('/')[0]}/{link.get('href', '')}".lstrip("/")
                yield link.text_content().partition("(")[0], posixpath.normpath(href)
    elif name == "postgresql":
        yield from _of_definitions(html.parse(directory / "bookindex.html").getroot())
    else:
        whole = directory / "genindex-all.html"
        path = whole if whole.exists() else directory / "genindex.html"
        (*tables,) = html.parse(path).xpath("//table[contains(@class,'genindextable')]/tr/td")
        for table in tables:
            for link in table.xpath("dl/dt/a"):
                yield link.text_content(), link.get("href")
        for item in chain.from_iterable(table.xpath("ul/li") for table in tables):
            text = _own_text(item)
            for link in item.xpath("a"):
                yield text, link.get("href")
            for inner in item.xpath("ul/li"):
                part = _own_text(inner)
                # "join() (bytes method)" is "(bytes method)" below "join() (Queue method)".
                parent = text.partition(" (")[0] if part.startswith("(") else text
                for link in inner.xpath("a"):
                    yield f"{parent} {part}", link.get("href")


def _of_definitions(root: Any) -> Iterator[tuple[str, str]]:
    for entry in root.xpath("//dl/dt"):
        text = entry.xpath("string(text()[1])").strip(" ,")
        for link in entry.xpath("a[@class='indexterm']"):
            yield text, link.get("href")
        following = entry.getnext()
        if following is not None and following.tag == "dd":
            for inner in following.xpath(".//dt"):
                part = inner.xpath("string(text()[1])").strip(" ,")
                for link in inner.xpath("a[@class='indexterm']"):
                    yield f"{text} {part}", link.get("href")


def _own_text(item: Any) -> str:
    """The text of an item of an index, without its inner items and its further links."""
    own = (item.text or "").strip()
    link = item.find("a")
    return own if own or link is None else link.text_content()


def words_of(text: str) -> str:
    """The words of the entry *text*, without those that say what kind of thing it is."""
    brackets = _BRACKETS.search(text)
    if brackets is None:
        return " ".join(_WORD.findall(text))
    inner = [word for word in _WORD.findall(brackets[1]) if word not in _KINDS]
    return " ".join(_WORD.findall(text[: brackets.start()]) + inner)


@cache
def queries_of(name: str) -> list[Query]:
    """At most MOST_QUERIES queries of the site *name*, always the same ones."""
    base = SITES[name].base
    pages = files_of(name)
    right: dict[str, set[str]] = {}
    for text, link in entries_of(name):
        url = base + link.partition("#")[0]
        words = words_of(text)
        if words and url in pages:
            right.setdefault(words, set()).add(f"http://{url}")
    queries = [Query(words, frozenset(urls)) for words, urls in sorted(right.items())]
    return random.Random(1).sample(queries, min(len(queries), MOST_QUERIES))


def crawl(name: str, work: Path) -> Path:
    """Crawl the sites of the set *name* in *work*, unless that was done; return the job."""
    sites = SETS[name].replace(";", "").split()
    directory = work / name
    if not (directory / "done").exists():
        directory.mkdir(parents=True)
        pages = served(sites)
        rig = VirtualSites(directory, pages)
        hosts = {SITES[site].base.partition("/")[0] for site in sites}
        modules = ("warc.WarcPipeline", "search_index.SearchIndex", "link_graph.LinkGraph")
        pipelines = ", ".join(f'"webcrawl.pipelines.{one}": {n}' for n, one in enumerate(modules))
        rig.crawl(
            *(f"http://{host}/" for host in sorted(hosts)),
            ITEM_PIPELINES=f"{{{pipelines}}}",
            POLITENESS_MIN_DELAY=0.01,
            ALIASES=0,
            URL_SCOPE="seeds",
            timeout=3600,
        )
        job = directory / "job"
        graphs = edge_directories(job)
        add_links([job / "search"], graphs, work_parent=directory, on_progress=lambda _: None)
        (directory / "done").touch()
    return directory / "job"


def measure(queries: dict[str, list[Query]], find: Find) -> dict[str, tuple[float, float]]:
    """Mean reciprocal rank at 10, and share of first hits, of *find* on each site and on all.

    *find* returns the URLs for some words, the best first.
    """
    ranks = {
        site: [rank_of(query, find(query.words)) for query in queries[site]] for site in queries
    }
    ranks["all"] = [*chain.from_iterable(ranks.values())]
    return {
        site: (sum(1 / rank for rank in found if rank) / len(found), found.count(1) / len(found))
        for site, found in ranks.items()
    }


def rank_of(query: Query, urls: list[str]) -> int:
    """The rank of the first right page among the first ten; 0 if there is none."""
    return next((n for n, url in enumerate(urls[:10], 1) if url in query.right), 0)


def fts5(job: Path) -> Callable[..., list[str]]:
    """A function that searches the same titles and texts with SQLite's FTS5."""
    database = sqlite3.connect(":memory:")
    database.execute(
        "CREATE VIRTUAL TABLE pages USING"
        " fts5(url UNINDEXED, title, text, tokenize='porter unicode61')"
    )
    searcher = tantivy.Index.open(str(job / "search")).searcher()
    for _, address in searcher.search(tantivy.Query.all_query(), searcher.num_docs).hits:
        fields = searcher.doc(address).to_dict()
        text = next(value for name, value in fields.items() if name.startswith("text"))
        row = fields["url"][0], fields["title"][0], text[-1]
        database.execute("INSERT INTO pages VALUES (?, ?, ?)", row)

    def find(words: str, title_weight: float) -> list[str]:
        query = " ".join(f'"{word}"' for word in words.split())
        statement = (
            "SELECT url FROM pages WHERE pages MATCH ? ORDER BY bm25(pages, 0, ?, 1) LIMIT 10"
        )
        return [url for (url,) in database.execute(statement, [query, title_weight])]

    return find


def before(job: Path) -> Find:
    """A function that searches as before links were used: for title and text only."""
    index = open_index(job / "search")
    searcher = index.searcher()

    def find(words: str) -> list[str]:
        query, _ = index.parse_query_lenient(
            words, ["title", "words", *TEXT_FIELDS], {"title": 2.0}, conjunction_by_default=True
        )
        return [searcher.doc(address)["url"][0] for _, address in searcher.search(query, 10).hits]

    return find


def ours(job: Path) -> Find:
    return lambda words: [hit.url for hit in search(job / "search", words, limit=10).hits]


def fit(work: Path, *names: str) -> None:
    """Search the weights of the fields on the sets *names*, each of which counts the same.

    From weights of 1, one weight at a time is changed as long as that finds right pages earlier.
    """
    tables = [table_of(crawl(name, work), judged(name)) for name in names]

    def quality(weights: list[float]) -> float:
        return float(np.mean([table.quality(weights) for table in tables]))

    weights = [1.0] * len(FITTED)
    best = quality(weights)
    print(f"weights of 1: {best:.4f}")
    improved = True
    while improved:
        improved = False
        for place, weight in enumerate(weights):
            for factor in (0.25, 0.5, 0.8, 1.25, 2, 4):
                tried = [*weights]
                tried[place] = max(weight * factor, LEAST)
                if (reached := quality(tried)) > best + 1e-4:
                    best, weights, improved = reached, tried, True
    found = {name: round(weight, 2) for name, weight in zip(FITTED, weights, strict=True)}
    print(f"fitted: {best:.4f}", found)


class Table(NamedTuple):
    """The pages found by *number* queries, the pages of a query below those of the one before.

    ``scores``: of each page in each of FITTED, times the weight of the page by its links.
    ``others``: the score of each page in the fields whose weight is not fitted.
    ``starts``: the first page of each query with right pages.
    """

    number: int
    scores: Any
    others: Any
    is_right: Any
    starts: Any

    def quality(self, weights: list[float]) -> float:
        scores = self.scores @ weights + self.others
        best = np.maximum.reduceat(np.where(self.is_right, scores, -1.0), self.starts)
        sizes = np.diff([*self.starts, len(scores)])
        ranks = 1 + np.add.reduceat(scores > np.repeat(best, sizes), self.starts)
        return float(np.where(ranks <= 10, 1 / ranks, 0).sum() / self.number)


def table_of(job: Path, sites: list[str]) -> Table:
    """The pages that the index of *job* finds for the queries of *sites*."""
    index = open_index(job / "search")
    searcher = index.searcher()
    parse = index.parse_query_lenient
    queries = [
        query for site in sites for query in queries_of(site)[: FITTED_QUERIES // len(sites)]
    ]
    rows: list[list[float]] = []
    is_right: list[bool] = []
    starts: list[int] = []
    for query in queries:
        parts = [parse(query.words, fields)[0] for fields in FIELDS.values()]
        name = tantivy.Query.term_query(index.schema, NAMES, name_of(query.words))
        parts.append(tantivy.Query.const_score_query(name, 1.0))
        every, _ = parse(query.words, [*WEIGHTS], conjunction_by_default=True)
        hits = searcher.search(every, 300, weight_by_field=PRIOR).hits
        found = {(at.segment_ord, at.doc): [0.0] * len(parts) for _, at in hits}
        for place, part in enumerate(parts):
            for score, at in searcher.search(part, 3000, weight_by_field=PRIOR).hits:
                if (key := (at.segment_ord, at.doc)) in found:
                    found[key][place] = score
        urls = [searcher.doc(tantivy.DocAddress(*key))["url"][0] for key in found]
        are_right = [url in query.right for url in urls]
        if any(are_right):
            starts.append(len(rows))
            is_right += are_right
            rows += found.values()
    scores = np.array(rows)
    return Table(len(queries), scores[:, 1:], scores[:, 0], np.array(is_right), np.array(starts))


def judged(name: str) -> list[str]:
    return SETS[name].partition(";")[0].split()


def show(name: str, row: dict[str, tuple[float, float]]) -> None:
    cells = "  ".join(f"{site} {mrr:.3f} {first:.3f}" for site, (mrr, first) in row.items())
    print(f"{name:24} {cells}", flush=True)


def main(work: str, *args: str) -> None:
    if args:
        fit(Path(work), *args)
        return
    for name in ("linked", "general", "fit", "fit-others", "fit-items"):
        job = crawl(name, Path(work))
        queries = {site: queries_of(site) for site in judged(name)}
        print(f"{name}: {sum(map(len, queries.values()))} queries")
        find = fts5(job)
        for weight in (1, 4, 16):
            show(f"FTS5, title x{weight}", measure(queries, partial(find, title_weight=weight)))
        show("before", measure(queries, before(job)))
        began = time.process_time()
        show("scrapy search", measure(queries, ours(job)))
        print(f"{sum(map(len, queries.values())) / (time.process_time() - began):.0f} a second")


if __name__ == "__main__":
    main(*sys.argv[1:])

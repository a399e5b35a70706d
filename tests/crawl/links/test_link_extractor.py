"""Which links a page has, by what kind of document it is."""

import gzip
import json

import pytest
import warc_checks
from scrapy.settings import Settings
from text_tables import cases, each

import webcrawl.settings
from webcrawl.crawl.links import link_extractor
from webcrawl.crawl.links.link_extractor import PageLinks, in_slices
from webcrawl.errors import FatalError
from webcrawl.urls import Link
from webcrawl.urls.extraction.kinds import DEFAULT_KINDS

URL = "http://a.test/dir/page"
SITEMAP = b'<?xml version="1.0"?><urlset><url><loc>http://a.test/1</loc></url></urlset>'
INDEX = b"<sitemapindex><sitemap><loc>http://a.test/2.xml</loc></sitemap></sitemapindex>"
RSS = b"<rss><channel><item><title>One</title><link>/1</link></item></channel></rss>"
HTML = b"<!DOCTYPE html><title>x</title><a href=/1>One</a>"
PACKED_SITEMAP, PACKED_INDEX, PACKED_TEXT = (
    gzip.compress(data, mtime=0) for data in (SITEMAP, INDEX, b"http://a.test/1\n")
)
CSS = b"@import 'x.css'; a { background: url(/x.png) }"


def page(body, content_type="text/html", *, headers=(), **more):
    more |= {"content_type": content_type, "headers": list(headers)}
    return warc_checks.page(url=URL, body=body, links=[], **more)


def reader(settings=(), **more):
    values = Settings()
    values.setmodule(webcrawl.settings)
    values.setdict(dict(settings))
    return PageLinks(values, **more)


def found(body, content_type="text/html", *, settings=None, **more):
    """Kind and path of all links; those to be taken in slices follow a semicolon."""
    one = page(body, content_type, **more)
    slow = reader(settings or {}).fill_in_links(one)
    links = as_text(one.links)
    return links if slow is None else f"{links}; {as_text(link for link in slow if link)}"


def as_text(links):
    return ", ".join(f"{link.kind} {link.url.removeprefix('http://a.test')}" for link in links)


@cases(
    "content_type body links",
    r"""
        text/html             | HTML                                             | a /1
        application/xhtml+xml | HTML                                             | a /1
        application/xml       | b"<html xmlns='x'><a href='/1'/></html>"         | a /1
        ""                    | HTML                                             | a /1
        ""                    | b"\xef\xbb\xbf\n<p><a href=/1>"                  | a /1
        ""                    | b"plain <a href=/1>"                             | ""
        unknown/unknown       | RSS                                              | ; item /1
        text/plain            | HTML                                             | ""
        application/zip       | HTML                                             | ""
        text/xml              | RSS                                              | ; item /1
        application/rss+xml   | RSS                                              | ; item /1
        application/atom+xml  | b"<feed><entry><link href='/1'/></entry></feed>" | ; item /1
        application/xml       | SITEMAP                                          | ; loc /1
        text/xml              | INDEX                                            | ; sitemap /2.xml
        text/xml              | b"<svg><a href='/1'/></svg>"                     | ""
        image/svg+xml         | b"<svg><a href='/1'/></svg>"                     | ""
        text/css              | CSS                                              | ""
    """,
    globals(),
)
def test_documents_are_told_apart_by_their_type_and_root(content_type, body, links):
    assert found(body, content_type) == links


@cases(
    "content_type body links",
    r"""
        text/xml                 | SITEMAP | ; loc /1
        text/html                | SITEMAP | ; loc /1
        application/octet-stream | PACKED_SITEMAP | ; loc /1
        application/gzip         | PACKED_INDEX | ; sitemap /2.xml
        text/plain               | b"http://a.test/1\nhttp://a.test/2\n" | ; loc /1, loc /2
        text/plain               | PACKED_TEXT | ; loc /1
        text/xml                 | RSS | ; item /1
        text/html                | HTML | a /1
        text/plain               | b"<html><link rel=alternate href=/1>" | alternate /1
        image/png                | b"\x89PNG\r\n\x1a\n" | ";"
    """,
    globals(),
)
def test_a_named_sitemap_is_read_as_one_only_if_it_looks_like_one(content_type, body, links):
    assert found(body, content_type, kind="sitemap").strip() == links


def test_header_links_come_first_and_each_url_once():
    headers = [
        (b"Link", b'</1>; rel="canonical", </2>; rel=next; title="Two"'),
        (b"LINK", b"</x.css>; rel=stylesheet"),
        (b"Refresh", b"5; url=/3"),
    ]
    one = page(HTML + b"<a href=/4>", headers=headers)
    assert reader().fill_in_links(one) is None
    assert one.links == [
        Link("http://a.test/3", "", "refresh"),
        Link("http://a.test/1", "", "canonical", "canonical"),
        Link("http://a.test/2", "Two", "next", "next"),
        Link("http://a.test/4", "", "a"),
    ]
    assert found(b"PK", "application/zip", headers=headers[:1]) == "canonical /1, next /2"
    assert found(SITEMAP, "text/xml", headers=headers[2:]) == "refresh /3; loc /1"


@cases(
    "kinds content_type body links",
    """
        css,stylesheet | text/css | CSS | ; stylesheet /dir/x.css, css /x.png
        img,form | text/html | b"<img src=/i><form action=/f?x><a href=/a>" | img /i, form /f
        a | text/xml | RSS | ""
        a | text/xml | SITEMAP | ""
        item | text/xml | RSS | ; item /1
        sitemap | text/xml | SITEMAP | "; "
        item | text/html | HTML | ""
        sitemap | text/html | b"<link rel=sitemap href=/s><a href=/a>" | sitemap /s
    """,
    globals(),
)
def test_only_the_kinds_that_are_asked_for(kinds, content_type, body, links):
    assert found(body, content_type, settings={"LINK_KINDS": kinds}) == links


def test_the_default_is_what_leads_to_pages():
    assert set(webcrawl.settings.LINK_KINDS) == DEFAULT_KINDS | {"item", "loc"}
    head = b"<link rel=canonical href=/c><meta http-equiv=refresh content='0;/r'>"
    assert found(head + b"<img src=/i>") == "canonical /c, refresh /r"


def links_of_json(document):
    for text in json.loads(document.body):
        yield Link(text)
    yield None


def test_users_add_link_extractors_by_content_type():
    extractors = {"application/json": links_of_json, "Text/HTML": links_of_json}
    settings = {"LINK_EXTRACTORS": extractors}
    body = b'["/1", "http://a.test/2", "mailto:a", "#", "/1", "<a href=/3>"]'
    links = "; a /1, a /2, a /dir/%3Ca%20href=/3%3E"
    assert found(body, "application/json", settings=settings) == links
    assert found(body, settings=settings) == f"a /3{links}"
    assert found(b"/URI (/4)", "application/pdf", settings=settings) == "; a /4"
    settings["PAGE_MAX_LINKS"] = 1
    assert found(body, "application/json", settings=settings) == "; a /1"


def test_link_extractors_of_the_crawl_are_replaced_or_switched_off():
    extractors = {
        "application/pdf": None,
        "feed": None,
        "application/atom+xml": links_of_json,
        "text/xml": None,
    }
    settings = {"LINK_EXTRACTORS": extractors}
    assert found(b"/URI (/4)", "application/pdf", settings=settings) == ""
    assert found(RSS, "application/xml", settings=settings) == ""
    assert found(b'["/1"]', "application/atom+xml", settings=settings) == "; a /1"
    assert found(SITEMAP, "application/xml", settings=settings) == "; loc /1"
    assert found(SITEMAP, "text/xml", settings=settings) == ""
    assert found(SITEMAP, "text/xml", settings=settings, kind="sitemap") == "; loc /1"


def raises_after_one(document):
    yield Link("/1")
    raise RecursionError


def no_links(document):
    return [Link("/1"), "/2"]


@each("extractor", raises_after_one, no_links)
def test_of_a_link_extractor_that_raises_the_links_so_far_count(extractor, caplog):
    counted = []
    pages = reader({"LINK_EXTRACTORS": {"text/plain": extractor}}, count=counted.append)
    for _ in range(3):
        links = [link for link in pages.fill_in_links(page(b"x", "text/plain")) if link]
        assert links == [Link("http://a.test/1")]
    assert counted == ["links/extractor_errors"] * 3
    assert [record.exc_info is not None for record in caplog.records] == [True]


@each("path", "no.such.module", "json.no_such", "json", 3)
def test_a_link_extractor_that_is_not_there_is_told_in_a_sentence(path):
    with pytest.raises(FatalError, match=r"^LINK_EXTRACTORS (names|must be) .*\.$"):
        reader({"LINK_EXTRACTORS": {"text/plain": path}})


@cases(
    "body headers said",
    """
        b"<meta name=robots content='noindex, nofollow'>" | [] | (True, True)
        b"<meta name=webcrawl content=noindex>" | [] | (True, False)
        b"<p>" | [(b"x-robots-tag", b"nofollow")] | (False, True)
        b"<p>" | [(b"X-Robots-Tag", b"webcrawl: nofollow, noindex")] | (True, True)
        b"<meta name=robots content=noindex>" | [(b"X-Robots-Tag", b"nofollow")] | (True, True)
    """,
)
def test_what_the_page_asks_of_crawlers_is_on_it(body, headers, said):
    one = page(body, headers=headers)
    reader({"USER_AGENT": "WebCrawl/0.1"}).fill_in_links(one)
    assert (one.robots.noindex, one.robots.nofollow) == said


@cases(
    "body rendered links",
    """
    b"<a href=/1>x</a>"               | "<a href=/2>x</a>"               | a /1, a /2
    b"<p>many words<a href=/1>x</a>"  | "<a href=/2>x</a>"               | a /1, a /2
    b"<a href=/1>x</a>"               | "<a href=/1>x</a><a href=/2>x</a>" | a /1, a /2
    b"<a href=/1>x</a>"               | "<html></html>"                  | a /1
    b"<a href=1>x</a>"                | "<base href=/b/><a href=1>x</a>" | a /b/1, a /dir/1
    b"<p>x" | "<p>x<meta http-equiv=refresh content='0; url=/to'>" | refresh /to
    b"<meta charset=koi8-r><a href='?q=\\xd0'>x</a>" | "<meta charset=koi8-r><a href='?q=п'>x</a>"
        | a /dir/page?q=%D0
    """,
)
def test_rendering_adds_links_and_takes_none_away(body, rendered, links):
    one = page(body, rendered=rendered)
    reader().fill_in_links(one)
    assert sorted(as_text(one.links).split(", ")) == links.split(", ")
    assert one.links_found == len(one.links)


@cases(
    "body rendered said",
    """
    b"<meta name=robots content=noindex>"  | "<p>x"                                | (True, False)
    b"<p>x"                                | "<meta name=robots content=nofollow>" | (False, True)
    b"<meta name=robots content=nofollow>" | "<meta name=robots content=noindex>"  | (True, True)
    """,
)
def test_the_stricter_of_two_documents_counts(body, rendered, said):
    one = page(body, rendered=rendered)
    reader().fill_in_links(one)
    assert (one.robots.noindex, one.robots.nofollow) == said


def test_directives_in_the_header_count_for_every_type_of_document():
    one = page(b"%PDF", "application/pdf", headers=[(b"X-Robots-Tag", b"noarchive")])
    reader().fill_in_links(one)
    assert one.robots.noarchive


def test_links_are_bounded_but_those_of_sitemaps_by_their_own_bound():
    settings = {"PAGE_MAX_LINKS": 3}
    many = b"".join(b"<a href=/%d>" % n for n in range(9))
    headers = [(b"Link", b"</x>; rel=next")]
    assert found(many, headers=headers, settings=settings).count(", ") == 3 - 1
    urls = b"".join(b"<loc>/%d</loc>" % n for n in range(60_000))
    assert found(b"<urlset>" + urls, "text/xml", settings=settings).count(", ") == 50_000 - 1
    assert found(many, settings={"PAGE_MAX_LINKS": 0}) == ""


def test_sitemaps_and_feeds_are_read_up_to_their_bounds_decompressed(monkeypatch):
    text = b"<urlset>" + b" " * 5000 + b"<loc>/1</loc><loc>/2"
    monkeypatch.setattr(link_extractor, "SITEMAP_MAX_BYTES", 5017)
    assert found(gzip.compress(text), "", kind="sitemap") == "; loc /1"
    feed = b"<rss><item><link>/1</link></item>" + b" " * 5000 + b"<item><link>/2</link></item>"
    bounds = {"PAGE_MAX_BYTES": 5000}
    assert found(gzip.compress(feed), "", settings=bounds, kind="sitemap") == "; item /1"
    assert found(RSS[:-34], "text/xml", truncated="length") == "; "


def test_half_a_url_where_a_feed_is_cut_for_its_length_is_left_out():
    feed = RSS.replace(b"</channel></rss>", b"<item><link>/2345")
    settings = {"PAGE_MAX_BYTES": len(feed) - 2}
    assert found(feed, "text/xml", settings=settings) == "; item /1"


def test_links_of_a_style_sheet_are_bounded():
    sheet = b"@import 'no.css'; url(/1) url(/1) url(/2) url(/3) url(/4)"
    settings = {"LINK_KINDS": ["css"], "PAGE_MAX_LINKS": 3}
    assert found(sheet, "text/css", settings=settings) == "; css /1, css /2, css /3"


ONE_ITEM = b"<rss><item><link>/1</link><title>One</title></item></rss>"
TWO_ITEMS = ONE_ITEM.replace(b"</rss>", b"<item><link>/1</link><title>Two</title></item></rss>")
GRAPH = {"ITEM_PIPELINES": {"webcrawl.pipelines.link_graph.LinkGraph": 1}}


@cases(
    "body content_type header texts number",
    """
        b"<a href=/1>One</a><a href=/1>Two</a><a href=/2>x</a>" | text/html | () | ["Two"] | 3
        HTML      | text/html | [b"</1>; title=H"] | ["One"] | 2
        HTML      | text/html | [b"</1>; title=H, </1>; title=I"] | ["I", "One"] | 3
        b"x"      | image/png | [b"</1>", b"</1>; title=I"] | ["I"] | 2
        TWO_ITEMS | text/xml  | () | ["Two"] | 0
        ONE_ITEM  | text/xml  | [b"</1>; title=H"] | ["One"] | 1
    """,
    globals(),
)
def test_each_link_is_counted_and_with_a_link_graph_kept(body, content_type, header, texts, number):
    for settings, kept in (({}, None), (GRAPH, texts)):
        one = page(body, content_type, headers=[(b"Link", value) for value in header])
        slow = reader({"LINK_KINDS": ["a", "item", "link"], **settings}).fill_in_links(one)
        links = [*one.links, *(link for link in slow or () if link)]
        assert len({link.url for link in links}) == len(links) > 0
        assert one.links_found == number
        if kept is not None:
            assert [(link.url, link.text) for link in one.repeats] == [
                ("http://a.test/1", text) for text in kept
            ]


def test_slices_are_as_long_as_they_may():
    ticks = iter(range(1000))
    links = [Link(f"http://a.test/{n}") for n in range(7)]
    found = [links[0], None, links[1], None, None, *links[2:]]
    assert list(in_slices(iter(found), limit=3, secs=4, clock=lambda: next(ticks))) == [
        links[:2],
        links[2:5],
        links[5:7],
    ]
    assert list(in_slices(iter([None] * 9), limit=3, secs=2, clock=lambda: next(ticks))) == [[]] * 4
    assert list(in_slices(iter([]), limit=3, secs=2, clock=lambda: next(ticks))) == []

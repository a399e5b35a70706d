"""What processing modules receive."""

import io

import pytest
from golden import golden
from itemadapter import ItemAdapter
from parsel import Selector
from scrapy.settings import default_settings
from scrapy.utils.misc import load_object
from text_tables import cases, each, table, words

import webcrawl.crawl.lease.page_builder  # noqa: F401  # makes Pages items
from webcrawl.items import Link, Page, RobotsDirectives
from webcrawl.pipelines.link_feed import LinksExporter
from webcrawl.urls import Link as UrlsLink


def page(body=b"", **more):
    return Page(
        url="http://a.test/",
        status=200,
        headers=[],
        body=body,
        wire_body=body,
        fetched_at=1.0,
        **more,
    )


def test_page_is_a_scrapy_item():
    adapter = ItemAdapter(page(b"x", links=[Link("http://a.test/x")]))
    assert {type(value) for value in adapter.values()} == {str, int, float, bool}
    assert {"url", "status", "fetched_at", "truncated", "body_cut"} <= adapter.keys()
    assert adapter["links"] == [Link(url="http://a.test/x", text="", kind="a", rel="")]
    assert ("text" in adapter, "header" in adapter) == (True, False)


EXPORTERS = default_settings.FEED_EXPORTERS_BASE


@each("kind", *EXPORTERS)
def test_feed_exports_write_text_and_numbers_and_all_else_by_its_name(kind):
    one = page(
        "<p>é\0".encode(),
        reason="N\udcffo\1",  # as the HTTP client gives the bytes ff and 01
        links=[Link("http://a.test/x")],
        robots=RobotsDirectives(noindex=True),
    )
    one.headers = [(b"X", b"\xe9")]
    written = export(kind, one)
    assert b"http://a.test/" in written
    assert b"links" not in written
    assert b"PHA" not in written
    assert export(kind, one, ["url", "nothing"]).count(b"nothing") == (kind == "csv")
    names = ["reason", "headers", "text", "body", "links", "robots"]
    written = export(kind, one, names)
    assert b"PHA+w6kA" in written  # the body in Base64
    if kind in {"csv", "json", "xml"}:
        text = written.decode().replace("\r\n", "\n")
        assert text == golden(f"feed.{kind}", text)


def test_the_feed_of_links_has_a_row_for_each_link(tmp_path):
    links = [
        Link("http://a.test/1", 'a, "b"\n\udcff'),
        Link("http://a.test/2", "", "next", "nofollow"),
        *(Link("http://a.test/3", f"{sign}1", "a", sign) for sign in ("=", "+", "-", "@", "\t")),
        Link("http://a.test/4", "1 = 1 - 0", "a", "a-b"),
    ]
    first, second = page(links=links), page(links=[Link("http://b.test/")])
    path = tmp_path / "links.csv"
    for one in (first, second):
        with path.open("ab") as file:
            exporter = LinksExporter(file, fields_to_export=["url"])
            exporter.start_exporting()
            exporter.export_item(one)
            exporter.export_item({"no": "Page"})
            exporter.finish_exporting()
    text = path.read_text()
    assert text == golden("links.csv", text)


def export(kind, item, names=None):
    """What the feed export *kind* writes of *item*."""
    file = io.BytesIO()
    exporter = load_object(EXPORTERS[kind])(file, fields_to_export=names)
    exporter.start_exporting()
    exporter.export_item(item)
    exporter.finish_exporting()
    return file.getvalue()


def test_every_field_is_documented():
    assert Page.__doc__ is not None
    for name in Page.__dataclass_fields__:
        assert name[0] == "_" or f"``{name}``" in Page.__doc__


def test_misspelt_field_is_refused():
    with pytest.raises(AttributeError):
        page().rnak = 1


def test_pages_do_not_share_their_lists():
    one, other = page(), page()
    one.links.append(Link("http://a.test/x"))
    one.request_headers.append((b"a", b"b"))
    assert other.links == []
    assert other.request_headers == []


def test_text_is_decoded_as_a_browser_would():
    assert page("Привет".encode("cp1251"), charset="windows-1251").text == "Привет"
    assert page(b"\xff\xfe" + "Привет".encode("utf-16-le"), charset="utf-8").text == "Привет"
    assert page("<meta charset=koi8-r>Привет".encode("koi8-r")).codec == "koi8-r"
    assert page(b"caf\xe9 au lait").text == "café au lait"
    assert page(b"\xff\xfe\xff", charset="no such").text == "\ufffd"


@cases(
    "body rendered shown",
    """
    b"<p>one two"                          | "<p>one two three" | "<p>one two three"
    b"<p>one two"                          | "<p>one two"       | "<p>one two"
    b"<p>caf\\xe9 two"                      | "<p>one"           | "<p>café two"
    b"<script>one two</script>"            | "<p>one"           | "<p>one"
    b"<script>one</script><p>one"          | "<p>two"           | "<p>two"
    b"<noscript>one two three</noscript>x" | "<p>one two"       | "<p>one two"
    b"<i srcdoc='<p>one two three'></i>"   | "<p>one"           | "<p>one"
    b"<p>one"                              | ""                 | "<p>one"
    b"<p>one"                              | "<head></head>"    | "<p>one"
    """,
)
def test_of_two_documents_the_one_with_more_words_is_shown(body, rendered, shown):
    one = page(body, rendered=rendered)
    assert one.text == shown
    assert one.css("p").getall() == Selector(text=shown).css("p").getall()


def test_header_is_found_in_any_case_and_the_first_counts():
    one = page()
    one.headers = [(b"Server", b"x"), (b"ETAG", b"\xe9"), (b"etag", b"2")]
    assert one.header("ETag") == "é"
    assert one.header("Age") is None


@each(
    "content_type names",
    *table("""
        text/html             | html body br p
        none                  | html body br p
        application/xhtml+xml | html body br p
        application/xml       | br p
        application/rss+xml   | br p
    """),
)
def test_selectors_are_those_of_scrapy_and_parse_once(content_type, names):
    one = page("<br><p>é</p></br>".encode(), content_type=content_type.replace("none", ""))
    assert one.css("p::text").get() == "é"
    assert [element.root.tag for element in one.xpath("//*[name()!=$x]", x="")] == words(names)
    assert one.selector is one.selector


def test_link_of_items_and_of_urls_is_the_same():
    assert Link is UrlsLink


def test_in_the_log_a_page_is_a_short_line():
    assert str(page(b"x" * 100_000)) == "<Page 200 http://a.test/ of 100000 bytes>"

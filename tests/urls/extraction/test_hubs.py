"""Hubs that feeds name, in their headers or before their first item."""

from text_tables import each

from webcrawl.urls.extraction.hubs import hub_of

URL = "http://a.test/feed"
HUB = '<link rel="hub" href="http://hub.test/"/>'
SELF = '<link rel="self" href="http://a.test/feed"/>'
NONE = ("", URL)
FOUND = ("http://hub.test/", URL)


def hub(body, *link_headers, url=URL):
    headers = [(b"Content-Type", b"x"), *((b"link", value.encode()) for value in link_headers)]
    return hub_of(body.encode(), url, "", headers)


@each("body found",
        (f"<feed>{HUB}{SELF}<entry/></feed>", FOUND),
        (f"<rss><channel><atom:{SELF[1:]}<atom10:{HUB[1:]}<item/></channel></rss>", FOUND),
        (f"<rdf:RDF><channel>{HUB}</channel></rdf:RDF>", FOUND),
        (f"<feed>{HUB}<link rel='SELF' href='/feed'/></feed>", FOUND),
        (f"<feed><link rel='self hub' href='/feed'/>{HUB}</feed>", (URL, URL)),
        (f"<feed>{HUB}<link rel='self' href='HTTP://A.test:80/feed'/></feed>",
            ("http://hub.test/", "HTTP://A.test:80/feed")),
        (f"<feed>{SELF}</feed>", NONE),
        (f"<feed>{SELF}<entry>{HUB}</entry></feed>", NONE),
        (f"<feed><!-- {HUB} -->{SELF}</feed>", NONE),
        (f"<html><head>{HUB}{SELF}</head>", NONE),
        ("<feed><link rel='hub' href=''/></feed>", (URL, URL)),
        ("<feed><link rel='hub'/><link rel='self'/></feed>", (URL, URL)),
        ("<feed><link rel='hub' href='javascript:x'/></feed>", NONE),
        ("<feed><link rel='hub' href='http://[/'/></feed>", NONE),
        ("", NONE),
    )  # fmt: skip
def test_the_hub_of_a_feed(body, found):
    assert hub(body) == found


def test_headers_come_first():
    other = '<http://other.test/>; rel="hub", <http://a.test/feed>; rel=self'
    assert hub(f"<feed>{HUB}{SELF}</feed>", other) == ("http://other.test/", URL)
    assert hub("<feed></feed>", "<http://hub.test/>; rel=hub", "</feed>; rel=self") == FOUND
    assert hub("<html>", other) == NONE


@each("other", "/other", "http://b.test/feed", "http://a.test/feed?x", f"/{'../' * 999}feed")
def test_no_page_speaks_for_another_one(other):
    assert hub(f"<feed>{HUB}<link rel='self' href='{other}'/></feed>")[0] == ""

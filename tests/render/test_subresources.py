"""What is sent for a page, compared with what browsers send."""

from __future__ import annotations

from text_tables import cases, each, words

from webcrawl.render.engine import Subresource
from webcrawl.render.subresources import redirected, subresource_of

PAGE = "http://a.test/page"
URL = "http://b.test/data"


def sent(url=URL, **headers):
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return subresource_of(url, "xhr", names, is_preflight=False)


@each(
    "name",
    *words("""User-Agent From Authorization Cookie Range If-Match If-None-Match Signature
    Signature-Input Proxy-Authorization Sec-Own Forwarded X-Forwarded-For
    X-Forwarded-Host X-Real-IP Referer Host Connection Content-Length Transfer-Encoding
    Accept-Encoding"""),
)
def test_a_script_does_not_say_who_asks(name):
    assert sent(Accept="*/*", **{name: "x"}) == sent(Accept="*/*")
    assert sent(Accept="*/*", **{name.upper(): "x"}) == sent(Accept="*/*")


def test_its_own_fields_are_sent_in_order():
    asked = sent(X_Own="1", Accept="application/json", Origin="http://a.test", Cookie2="x")
    fields = (("accept", "application/json"), ("cookie2", "x"), ("x-own", "1"))
    assert asked == Subresource(URL, "xhr", "http://a.test", fields)
    # Chromium names the origin for modules of the page's own.
    assert sent(Origin="http://b.test").origin == ""


@cases(
    "fields size is_sent",
    """
    16 | 1    | True
    17 | 1    | False
    1  | 4080 | True
    1  | 4096 | False
    """,
)
def test_fields_have_bounds(fields, size, is_sent):
    own = {f"X-{number}": "x" * size for number in range(fields)}
    asked = sent(Accept="*/*", **own)
    assert isinstance(asked, Subresource) == is_sent
    assert is_sent or asked == "too many header fields"


@cases(
    "kind url origin location expected",
    """
    # Same origin, then another; a request without cors stays one.
    xhr    | http://a.test/x | ''            | http://b.test/y | http://a.test
    script | http://a.test/x | ''            | http://b.test/y | ''
    xhr    | http://b.test/x | ''            | http://a.test/y | ''
    # Another origin, then the same one, the page's, and a third.
    xhr    | http://b.test/x | http://a.test | /y              | http://a.test
    script | http://b.test/x | http://a.test | http://a.test/y | null
    script | http://b.test/x | http://a.test | http://c.test/y | null
    xhr    | http://b.test/x | 'null'        | /y              | 'null'
    """,
)
def test_redirects_keep_the_origin_as_browsers_do(kind, url, origin, location, expected):
    target = redirected(Subresource(url, kind, origin), location, PAGE)
    assert target.origin == expected


@cases(
    "facts location",
    """
    # A preflight may have to come first.
    {"fields": (("x-own", "1"),)}                 | http://b.test/y
    {"fields": (("accept", 'text/"x"'),)}         | http://b.test/y
    {"method": "OPTIONS"}                         | http://b.test/y
    {}                                            | data:,x
    """,
)
def test_other_redirects_are_left_to_the_next_pass(facts, location):
    assert redirected(Subresource(URL, "xhr", **facts), location, PAGE) is None

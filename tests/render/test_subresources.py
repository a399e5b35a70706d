"""What is sent for a page, compared with what browsers send."""

from text_tables import cases, each, words

from webcrawl.render.engine import Subresource
from webcrawl.render.subresources import subresource_of

URL = "http://b.test/data"


def sent(url=URL, **headers):
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return subresource_of(url, "xhr", names)


@each(
    "name",
    *words("""User-Agent From Authorization Cookie Range If-Match If-None-Match Signature
    Signature-Input Proxy-Authorization Sec-Own Forwarded X-Forwarded-For
    X-Forwarded-Host X-Real-IP Host Connection Content-Length Transfer-Encoding
    Accept-Encoding"""),
)
def test_a_script_does_not_say_who_asks(name):
    assert sent(Accept="*/*", **{name: "x"}) == sent(Accept="*/*")
    assert sent(Accept="*/*", **{name.upper(): "x"}) == sent(Accept="*/*")


def test_its_own_fields_are_sent_in_order():
    asked = sent(X_Own="1", Accept="application/json", Origin="http://a.test", Cookie2="x")
    fields = (("accept", "application/json"), ("cookie2", "x"), ("x-own", "1"))
    assert asked == Subresource(URL, "xhr", "http://a.test", fields)
    # Scripts cannot set it: it is what the page's policy says.
    assert sent(Referer="http://a.test/").referer == "http://a.test/"
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

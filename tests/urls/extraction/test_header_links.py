"""Links in response headers."""

from text_tables import each, shown, table

from webcrawl.urls.extraction.header_links import MAX_HEADER_BYTES, extract_header_links
from webcrawl.urls.extraction.kinds import KINDS

URL = "http://a.test/dir/page"


def links(*values, refresh=None, limit=100, kinds=KINDS):
    return extract_header_links(values, refresh, url=URL, limit=limit, kinds=kinds)


@each(
    "value expected",
        *table(r"""
        </x>; rel=next | next /x [next]
        <?p=2>; rel="Next  nofollow"; title=" Page \"2\" "
            | next /dir/page?p=2 [next nofollow] Page "2"
        </a>;rel=prev,</b>; rel=canonical | prev /a [prev], canonical /b [canonical]
        </a,b>; rel=x; title="a, <b>; c", <c> | link /a,b [x] a, <b>; c, link /dir/c
        </a>; rel=next; rel=prev; anchor="#x" | next /a [next]
        </a> ; REL = 'x'; crossorigin ;; nonsense, </b> | link /a ['x'], link /b
        junk </a> junk </no>; rel=next, junk, </b> | link /a, link /b
        </a>; title="not closed, </no> | link /a not closed, </no>
        <#x>, <>, <mailto:a@b.test>, </never |
        x |
        </a>, </a>; rel=next | link /a
        """),
        ("</é>; title=é", "link /%C3%A9 é"),
        ("", ""),

)  # fmt: skip
def test_link_header_is_read_as_the_standard_says(value, expected):
    for codec in ("utf-8", "latin-1"):
        assert shown(links(value.encode(codec))) == expected


def test_values_of_several_headers_add_up_to_the_limit():
    found = links(b"</a>", b"</b>, </c>, </d>", limit=3)
    assert shown(found) == "link /a, link /b, link /c"
    assert links(b"</a>", limit=0) == []


def test_only_the_kinds_asked_for_are_found():
    value = b"</s.css>; rel=preload; as=style, <//cdn.test>; rel=preconnect, </de>; rel=alternate"
    assert [link.kind for link in extract_header_links([value], url=URL, limit=9)] == ["alternate"]


def test_refresh_header_is_a_link():
    assert shown(links(refresh=b"5; url=/x")) == "refresh /x"
    assert links(refresh=b"5; url=/x", kinds=frozenset({"a"})) == []
    assert links(refresh=b"5") == []


def test_long_headers_are_cut():
    assert links(b" " * MAX_HEADER_BYTES, b"</a>") == []

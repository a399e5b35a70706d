"""Statements in the headers and the head of a page."""

import random

from text_tables import each, table

from webcrawl.rights.statements import MAX_STATEMENTS, MAX_TEXT_CHARS, page_statements

HEADERS = table("""
    Content-Usage: train-ai=n      | header content-usage: train-ai=n
    content-signal: ai-train=no    | header content-signal: ai-train=no
    TDM-Reservation: 1             | header tdmrep: tdm-reservation=1
    tdm-policy: https://a.test/p   | header tdmrep: tdm-policy=https://a.test/p
    X-Robots-Tag: noai             | header robots: noai
    X-Robots-Tag: me: NoAI         | header robots: noai
    X-Robots-Tag: otherbot: noai   |
    Link: </l>; rel="license"      | header license: </l>; rel="license"
    Link: </style.css>; rel=icon   |
    Location: /elsewhere           |
""")
HEADS = table("""
    <meta name="robots" content="NoAI,x">                   | meta robots: noai,x
    <META CONTENT='noai' NAME=me>                           | meta robots: noai
    <meta name="otherbot" content="noai">                   |
    <meta name="tdm-reservation" content="1">               | meta tdmrep: tdm-reservation=1
    <meta name="tdm-policy" content="/a&amp;b">             | meta tdmrep: tdm-policy=/a&b
    <link rel="License" href="/by-nc">                      | link license: /by-nc
    <!-- <meta name="robots" content="noai"> -->            |
    <!-- <meta name="robots" content="noai">                |
    <body><meta name="robots" content="noai">               |
    <BODY ><meta name="robots" content="noai">              |
    <!-- <body> --><meta name="robots" content="noai">      | meta robots: noai
    </head><meta name="robots" content="noai">              |
    </HEAD ><meta name="robots" content="noai">             |
    <p><meta name="robots" content="noai">                  |
    <header><meta name="robots" content="noai">             |
    </p></x><meta name="robots" content="noai">             | meta robots: noai
    </br><meta name="robots" content="noai">                |
    <?x y><!x>a < b <1><meta name="robots" content="noai">  | meta robots: noai
    <title><p></title><meta name="robots" content="noai">   | meta robots: noai
    <title><meta name="robots" content="noai"></title>      |
    <style>a<p>b</style><link rel="license" href="/by-nc">  | link license: /by-nc
    <noscript><img></noscript><meta name="me" content="noai"> | meta robots: noai
    <noscript><meta name="robots" content="noai"></noscript> | meta robots: noai
    <noscript><NoScript ><meta name="robots" content="noai"></noscript> | meta robots: noai
    <meta name=x content='a"<p>'><base href="<p>"><meta name="me" content="noai">
    | meta robots: noai
    <link rel=icon href="data:,<svg><text>x</text></svg>"><meta name="me" content="noai">
    | meta robots: noai
    <!-- a -- b --><script>if (a<b) "</p>"</script ><meta name="me" content="noai">
    | meta robots: noai
    <meta name=author content=O'Brien><meta name=robots content=noai></head>' | meta robots: noai
    <template><p></template><meta name="robots" content="noai"> | meta robots: noai
    <script>"<meta name=robots content=noai>"</script>      |
    <script>"<body>"</script><meta name="me" content="noai"> | meta robots: noai
    <permits type="usage">search</permits>                  |
    <script type="application/rsl+xml"><permits type="usage">search ai-input</permits>
    | page rsl: others=prohibits, search=permits, ai-input=permits
    <p><script type="application/rsl+xml"><permits type="usage">search</permits></script> |
    <script type="application/rsl+xml"><rsl:prohibits type="usage">ai-train</rsl:prohibits>
    | page rsl: ai-train=prohibits
""")


def said(*, headers=(), body=b"", content_type="text/html", purpose="train"):
    return page_statements(
        headers, body, content_type, tokens=("me-train", "me"), purpose=purpose, at=5.0
    )


@each("header expected", *HEADERS)
def test_headers_state_preferences(header, expected):
    name, value = header.encode().split(b": ", 1)
    found = said(headers=[(name, value)], content_type="image/png" if "NoAI" in header else "")
    wanted = expected.replace("header robots", "header robots-for-images") * ("NoAI" in header)
    assert ", ".join(map(str, found)).strip() == (wanted or expected)


@each("head expected", *HEADS)
def test_the_head_of_a_page_states_preferences(head, expected):
    body = f"<html><head>{head}</head><body>text".encode()
    assert ", ".join(map(str, said(body=body))) == expected
    assert said(body=body, content_type="text/plain") == []


def test_noimageai_is_for_images():
    headers = [(b"X-Robots-Tag", b"noimageai")]
    assert [each.verdict for each in said(headers=headers, content_type="image/gif")] == ["refuse"]
    assert [each.verdict for each in said(headers=headers)] == [""]


def test_number_and_length_of_statements_are_limited():
    found = said(headers=[(b"Content-Usage", b"train-ai=n, " + b"x" * 9000)] * 100)
    assert len(found) == MAX_STATEMENTS
    assert {(len(each.text), each.verdict) for each in found} == {(MAX_TEXT_CHARS, "refuse")}


def test_refusals_are_kept_before_other_statements():
    head = b"<link rel=license href=/a>" * MAX_STATEMENTS + b"<meta name=robots content=noai>"
    found = said(body=head)
    assert [each.verdict for each in found] == ["refuse"] + [""] * (MAX_STATEMENTS - 1)
    head = head.decode().encode("utf-16")
    assert said(body=head) == found


def test_no_page_makes_it_raise():
    rng = random.Random(7)
    pieces = [
        b"<meta name=robots content=",
        b'"noai',
        b"<!--",
        b"<noscript>" * 999,
        b"-->",
        b"<link rel=license",
        b"<script ",
        b"<BODY>",
        b"\xff",
    ]
    pieces += [
        b"application/rsl+xml",
        b'<permits type="usage">',
        b">",
        b"=",
        b"<",
        b"\0",
        b"x" * 999,
    ]
    for _ in range(200):
        body = b"".join(rng.choices(pieces, k=60))
        assert len(said(body=body, headers=[(b"x-robots-tag", body), (b"link", body)])) <= 32

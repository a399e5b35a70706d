"""The rules of walls and the shapes of pages, by what their sources say such answers look like."""

import time

from scrapy.http import HtmlResponse
from text_tables import cases, each
from wire_text import table

from webcrawl.net.walls import (
    CHALLENGED,
    MAX_BODY,
    WALLED,
    body_wall,
    header_wall,
    outline_of,
    sample_of,
    shape_of,
    words_below,
)

ANSWERS = table("walls")
URL = "http://a.test/news/storm?id=7"
ANUBIS = b'<title>Wait</title><script id="anubis_challenge" type="application/json">{}</script>'
CLOUDFLARE = (
    b"<title>Just a moment...</title><script>window._cf_chl_opt={cvId:'3'};"
    b"a.src='/cdn-cgi/challenge-platform/h/b/orchestrate/chl_page/v1'</script>"
)
DATADOME = (
    b"<p id=cmsg>Please enable JS</p><script>var dd={'rt':'c','host':'geo.captcha-delivery.com'}"
    b'</script><script src="https://ct.captcha-delivery.com/c.js"></script>'
)
PERIMETERX = b'<div id="px-captcha"></div><script>window._pxAppId = "PX1";</script>'
IMPERVA = b'<iframe src="/_Incapsula_Resource?x=1">Incapsula incident ID: 92000-1</iframe>'
LOGIN = b'<form><input name="p" type="password"></form>'
CONSENT = b'<form method="post" action="https://consent.google.com/save"></form>'


@each("headers outcome", *ANSWERS["headers"])
def test_a_header_decides_alone(headers, outcome):
    assert header_wall(URL, HtmlResponse(URL, headers=headers)) == outcome


@each("body", ANUBIS, CLOUDFLARE, DATADOME, PERIMETERX, IMPERVA, LOGIN, CONSENT)
def test_a_wall_is_known_by_its_marks_but_not_on_a_page_of_many_links(body):
    assert body_wall(body) == (WALLED if body in (LOGIN, CONSENT) else CHALLENGED)
    assert body_wall(body + b'<a href="/x">' * 50) == ""
    assert body_wall(body + b" " * MAX_BODY) == ""


def test_what_a_sound_page_of_a_protected_site_has_is_no_sign():
    sound = b"<script src='/cdn-cgi/challenge-platform/scripts/jsd/main.js'></script>"
    assert body_wall(sound + b"<script>window._pxAppId='PX1'</script>") == ""


@each("site headers body", *ANSWERS["recorded"])
def test_answers_that_others_have_recorded_are_walls(site, headers, body):
    found = header_wall(URL, HtmlResponse(URL, headers=headers)) or body_wall(body.encode())
    assert found == (WALLED if site == "youtube.com" else CHALLENGED)


def test_the_shape_leaves_out_the_url_and_tokens():
    def page(url, token, text="was not found here, try the search"):
        return (
            f"<title>Gone</title><script>{token}</script><h1>{url}</h1><p>{text} {token}"
            f"<a href='{url}?s={token}'>x</a>"
        ).encode()

    one = shape_of(page("/a/storm", "8f3a91c2"), "http://a.test/a/storm")
    assert one.has_text
    assert shape_of(page("/b/flood", "0c44d2e9"), "http://a.test/b/flood") == one
    other = page("/b/flood", "0c44d2e9", "was found here, and has a text of its own")
    assert shape_of(other, "http://a.test/b/flood") != one


def test_pages_of_nothing_but_numbers_or_pictures_have_no_shape_in_common():
    tokens = b"<p>8f3a91c2 0c44d2e9 8f3a91c3 0c44d2ea a b c"
    assert not shape_of(tokens, "http://a.test/x").has_text
    photos = [b"<img src=/p/%s.jpg> see the next one" % name for name in (b"a", b"b")]
    assert shape_of(photos[0], "http://a.test/a") != shape_of(photos[1], "http://a.test/b")


def test_outlines_are_titles_but_for_words_with_digits_and_lengths():
    assert outline_of(b"<p><title>Gone (ray 8f3a)") == outline_of(b"<p><TITLE>gone (ray 9)")
    assert outline_of(b"<title>Gone</title>") != outline_of(b"<title>Here</title>")
    assert outline_of(b"<title>Gone</title>") != outline_of(b"<title>Gone</title>" + b" " * 600)


@cases(
    "body sample",
    """
        HALF<p>Nothing was found here, sorry | Nothing was found here
        HALF<p>No storm was found here<p>Go to the front page. | Go to the front page
        HALF<p>The number of it is 8f3a91c2  | The number of it is
        HALF<p>Ничего не нашли.              | Ничего не нашли
        <p>Nothing was found here, sorryHALF | ""
        ""                                   | ""
    """,
)
def test_a_sample_is_a_text_of_the_second_half_without_words_of_the_url(body, sample):
    body = body.replace("HALF", "<p>x<p>y" * 9).encode()
    assert sample_of(body, URL) == sample.encode()


def test_urls_are_unlike_that_have_no_word_in_common_below_their_first_directory():
    def alike(one, other):
        return not set(words_below(f"http://a.test{one}")).isdisjoint(
            words_below(f"http://a.test{other}")
        )

    assert not alike("/en/storm-warning.html", "/en/flood/chart.html")
    assert alike("/api/lang/class-use/A.html", "/api/awt/class-use/B.html")
    assert alike("/show?id=1", "/view?id=2")
    assert words_below("http://a.test/") == words_below("http://a.test/item/4711") == []
    assert len(words_below("http://a.test/" + "-".join(map(chr, range(97, 123))))) <= 12


@cases(
    "piece",
    """
        b">aaa aaa aaa aaa"
        b"<"
        b"<img src "
        b"<a href="
        b"<script "
        b"a"
        b"<title"
        b"a1"
        b"a-"
        b"url("
        b"%"
    """,
)
def test_hostile_pages_take_linear_time(piece):
    body = piece * (MAX_BODY // len(piece))
    began = time.process_time()
    outline_of(body)
    body_wall(body)
    sample_of(body, "http://a.test/" + "a" * 2000)
    shape_of(body, "http://a.test/" + "a" * 2000)
    for location in (body, b"?client_id=" * 6000, b"/login" * 10_000):
        header_wall(URL, HtmlResponse(URL, headers={"Location": location}))
    assert time.process_time() - began < 1.0

"""Tests that a host's earlier pages decide about its next ones, and survive a restart."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import sound_sites
from host_rig import Records
from scrapy.http import HtmlResponse, Response
from text_tables import each

from webcrawl.hosts.politeness.walls import Walls
from webcrawl.hosts.records.host_record import HostRecord, decode, encode
from webcrawl.net.walls import ALIKE, CHALLENGED, SOFT_ERROR, WALLED, WALLS

HOST = "a.test"
NAMES = ("storm", "flood", "hail", "frost", "snow", "drought", "thaw", "gale")
ANUBIS = b'<title>Wait</title><p>One moment please</p><script id="anubis_challenge">%s</script>'
LOGIN = b'<title>Members</title><p>Please log in first</p><input type="password"><p>8f3a91c%s</p>'
MISSING = "<title>Oops</title><h1>%s</h1><p>There is no such page, try the search. Ray %s</p>"


class Host:
    """A host that answers, with its walls; *restarts* after each answer if asked to."""

    def __init__(self, *, restarts=False):
        self.records = Records()
        self.stats = Counter()
        self.walls = Walls(records=self.records, count=lambda name: self.stats.update([name]))
        self.flags = []
        self._restarts = restarts

    def answers(
        self, path, body=b"", *, kind=HtmlResponse, is_robots=False, had_document=False, **rest
    ):
        url = f"http://{HOST}{path}"
        body = body.encode() if isinstance(body, str) else body
        answer = kind(url, body=body, **rest)
        outcome = self.walls.judge(url, answer, is_robots=is_robots, had_document=had_document)
        self.flags = answer.flags
        if self._restarts and self.record is not None:
            self.records.put(decode(encode(self.record), HOST, Path("hosts")))
        return outcome

    def misses(self, path, number=0):
        return self.answers(path, MISSING % (path, f"{number}f3a91c2e"))

    @property
    def record(self):
        return self.records.hosts.get(HOST)


@pytest.fixture(params=[False, True], ids=["one run", "restarts"])
def host(request):
    return Host(restarts=request.param)


def test_a_header_decides_alone_whatever_the_body(host):
    assert host.answers("/a", headers={"Cf-Mitigated": "challenge"}, status=403) == CHALLENGED
    assert host.record.walled == [1, 0, 0]
    assert host.stats == {"walls/hosts": 1}


@each("body outcome", (ANUBIS, CHALLENGED), (LOGIN, WALLED))
def test_a_body_only_flags_until_three_urls_have_its_shape(host, body, outcome):
    assert [host.answers(f"/{n}", body % b"%d" % n) for n in range(2)] == ["", ""]
    assert host.answers("/1", body % b"7") == ""  # a URL counts once
    assert host.answers("/2", body % b"8") == outcome
    assert host.answers("/0", body % b"9") == outcome
    assert host.stats == {"walls/flagged": 3, "walls/hosts": 1}
    assert host.record.walled[WALLS.index(outcome)] == 2


def test_pages_with_a_login_box_differ_in_their_shapes(host):
    for word in (b"storm", b"flood", b"drought", b"hail", b"frost"):
        assert host.answers(f"/{word.decode()}", LOGIN % (b"news of another " + word * 2)) == ""


def test_soft_errors_are_learned_from_unlike_urls_of_one_shape(host):
    paths = ["/storm", "/en/flood", "/old/drought.html", "/a/hail", "/b/frost"]
    found = [host.misses(path, number) for number, path in enumerate(paths)]
    assert found == ["", "", "", SOFT_ERROR, SOFT_ERROR]  # the first one only left its outline
    assert host.answers("/c/snow", b"<title>Oops</title><p>A page on the snow of yesterday") == ""
    assert host.record.walled == [0, 0, 2]
    assert host.stats["walls/soft_errors"] == 2


def test_a_learned_soft_error_is_a_flag_unless_its_url_had_a_document(host):
    for name in ("storm", "flood", "hail"):
        host.misses(f"/{name}")
        assert host.flags == []
    assert host.misses("/snow") == SOFT_ERROR
    assert host.flags == [ALIKE, SOFT_ERROR]
    body = MISSING % ("/thaw", "7f3a91c2e")
    assert host.answers("/thaw", body, had_document=True) == SOFT_ERROR
    assert SOFT_ERROR not in host.flags


@each(
    "own",
    "<a href=/lists/{key}>a</a>",
    "<a href=/x?next={key}>a</a>",
    "<img src='/p?id={key}'>",
    "<b data-row={key}>",
    "<p>{key}, {key2}",
    "<script>show('{key}')</script>",
)
def test_pages_of_one_shape_that_differ_in_their_source_are_documents_but_alike(host, own):
    for number, name in enumerate(NAMES):
        key = f"8f3a91c{number}"
        body = MISSING % (f"/{name}", "") + own.format(key=key, key2=f"0{key}")
        assert host.answers(f"/{name}", body) == ""
        assert host.flags == ([ALIKE] if number > 2 else [])


@each("path", *sound_sites.PATHS)
@each("kind", *sound_sites.KINDS)
def test_no_page_of_a_sound_site_is_flagged(kind, path):
    host, pages = Host(), [*sound_sites.pages_of(kind, path)]
    assert len(pages) == 30
    for page in pages:
        assert host.answers(page.path, page.body) == ""
        assert {*host.flags} <= {ALIKE}


def test_marks_on_a_url_that_had_a_document_decide_at_once(host):
    assert host.answers("/a", ANUBIS % b"1", had_document=True) == CHALLENGED
    assert host.answers("/b", LOGIN % b"1", had_document=True) == WALLED
    assert host.answers("/c", LOGIN % b"2", had_document=True) == WALLED
    assert host.flags == []
    assert host.answers("/d", ANUBIS % b"2") == ""


def test_a_login_that_is_on_pages_of_the_host_hides_no_document_that_changes(host):
    page = b"<title>News</title><p>Of %s there is much to say today</p>" + LOGIN
    assert host.answers("/a", page % (b"storm", b"1")) == ""
    assert host.answers("/a", page % (b"flood", b"1"), had_document=True) == ""
    # One that is new on each page is taken for a wall until there are two of them.
    other = Host()
    assert other.answers("/a", page % (b"storm", b"1"), had_document=True) == WALLED
    assert other.answers("/b", page % (b"flood", b"1"), had_document=True) == ""
    assert other.answers("/a", page % (b"storm", b"1"), had_document=True) == ""


def test_pages_with_one_title_but_different_texts_share_no_shape(host, monkeypatch):
    monkeypatch.setattr("webcrawl.hosts.politeness.walls.shape_of", None)
    for name in NAMES:
        text = f"<p>Much {name}{name} has been seen in these days</p>" * 99
        assert host.answers(f"/{name}", b"<title>News</title>" + text.encode()[:4900]) == ""


def test_an_error_page_of_several_texts_is_learned_text_by_text(host):
    texts = ["Nothing at all was found here", "Here is nothing for you to see"]
    body = "<title>No</title><h1>{}</h1><p>{}, number 8f3a91c{}"
    for number, (one, other) in enumerate(pairwise(NAMES)):
        for text, path in zip(texts, (f"/{one}", f"/{other}{one}"), strict=True):
            outcome = host.answers(path, body.format(path, text, number).encode())
    assert outcome == SOFT_ERROR
    assert host.record.walled == [0, 0, 8]


def test_pages_with_one_form_are_not_soft_errors(host):
    for number, name in enumerate(("String", "Object", "List", "Map", "Set", "Deque")):
        assert host.misses(f"/api/lang{number}/class-use/{name}.html", number) == ""
        assert host.misses(f"/item/{number}", number) == ""


SAME = "<title>All</title><ul><li>Home<li>Contact us<li>About these pages</ul>{}"


@each(
    "page",
    "<p>The weather in {0}: {1} degrees, wind {2}",
    "<p>{0}: call 555-{1}-4567",
    "<p>{0} is on sale for {1}.{2}",
    "<p>The next one is on 2026-11-{1}",
    "<p>See this one:<img src='/p/{3}.jpg'>",
    "<p>See this one:<p style='background-image: url(/p/{3}.jpg)'>",
    "<p>Watch this one:<iframe src='https://play.test/{3}'></iframe>",
    "<p>Read this one:<object data='/{3}.pdf'></object>",
    "<p>Go there:<a href='/to/{3}'>more</a>",
    "<p>Loading, please wait<script>var data = {{'text': 'this is on {3}'}}</script>",
)
def test_pages_of_one_template_are_documents(host, page):
    for number, name in enumerate(NAMES):
        what = page.format(name, 11 + number, 31 + number, NAMES[-number - 1] + "s")
        assert host.answers(f"/{name}", SAME.format(what)) == ""


def test_pages_that_say_no_more_than_their_url_are_documents(host):
    for name in NAMES:
        words = f"the {name} that was before the next {name}"
        body = SAME.format(f"<blockquote>{words}</blockquote>")
        assert host.answers(f"/quotes/{words.replace(' ', '-')}", body) == ""


def test_the_shell_of_an_application_is_a_document(host):
    shell = "<title>App</title><div id=root></div><script nonce={}></script><noscript>You have to "
    shell += "enable JavaScript in your browser to run this application.</noscript>"
    for number, name in enumerate(NAMES):
        assert host.answers(f"/{name}", shell.format(f"8f3a91c{number}")) == ""


def test_marks_are_looked_for_on_first_pages_and_where_the_outline_came_before(host):
    host.records.put(HostRecord(HOST, pages=8))
    assert [host.answers(f"/{n}", ANUBIS % b"%d" % n) for n in range(3)] == [""] * 3
    assert host.stats == {"walls/flagged": 2}
    assert host.answers("/3", ANUBIS % b"3") == CHALLENGED


def test_pages_equal_to_the_byte_are_left_to_the_content_seen_test(host):
    body = MISSING % ("", "")
    assert [host.answers(f"/{name}", body) for name in ("a", "b", "c", "d", "e")] == [""] * 5


@each(
    "rest",
    {"status": 404},
    {"kind": Response, "headers": {"Content-Type": "text/plain"}},
    {"kind": Response, "headers": {"Content-Type": "image/png"}},
)
def test_only_html_with_status_200_is_a_soft_error(host, rest):
    for name in ("storm", "flood", "hail", "frost", "snow"):
        body = (MISSING % (name, f"7f{len(name)}3a91c2")).encode()
        assert host.answers(f"/{name}", body, **rest) == ""


def test_wall_data_of_a_host_is_bounded(host):
    for number in range(300):
        word = "".join(chr(97 + int(digit)) for digit in str(number))
        path = "/" + "/".join(f"{word}{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")
        host.answers(path, f"<title>Same</title><p>All of these are other {word}x".encode())
        host.answers(path, f"<title>{word}</title>".encode())
        host.answers(path, ANUBIS % b"7" + word.encode())
    assert len(host.record.samples) <= 8
    assert len(host.record.walls) <= 8
    assert len(encode(host.record)) < 2000


def test_decided_shapes_outlive_undecided_ones(host):
    for name in ("storm", "flood", "hail", "frost"):
        host.misses(f"/{name}")
    for word in ("ab", "cd", "ef", "gh", "ij", "kl", "mn", "op", "qr", "st"):
        host.answers(f"/{word}", f"<title>Oops</title><p>Here is more on one {word}x")
    assert host.misses("/snow", 3) == SOFT_ERROR


def test_in_answer_to_robots_txt_the_marks_of_a_challenge_decide_alone(host):
    assert host.answers("/robots.txt", ANUBIS % b"1", is_robots=True) == CHALLENGED
    assert host.answers("/robots.txt", LOGIN % b"1", is_robots=True) == ""
    away = {"Location": "/login?next=/robots.txt"}
    assert host.answers("/robots.txt", headers=away, status=302, is_robots=True) == ""


def test_other_protocols_have_no_walls(host):
    url = f"ftp://{HOST}/a/"
    assert host.walls.judge(url, HtmlResponse(url, headers={"Cf-Mitigated": "challenge"})) == ""

"""Stored subresources: what is shared and for how long, and what a restart finds."""

import shutil
import time
from email.utils import formatdate

import pytest
from text_tables import cases, each

from webcrawl.render.engine import Answer, Subresource
from webcrawl.render.store import FILE, RenderStore, stored_answers

SCRIPT = Subresource("http://a.test/app.js", "script", fields=(("accept", "*/*"),))
ONE, OTHER = "http://a.test/1", "http://b.test/2"
STAR = {"Access_Control_Allow_Origin": "*"}


@pytest.fixture
def store(tmp_path):
    store = RenderStore(path=tmp_path / "rendering", max_bytes=12_000)
    store.open(forgets=False)
    yield store
    store.close()


def keep(store, *pages):
    for since, page in enumerate(pages):
        store.keep(page, page.encode(), float(since), 0, b"exchange")


def answer(body=b"1", status=200, **headers):
    pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return Answer(status, pairs, body)


def asked(url="http://a.test/app.js", *, fields=(), **facts):
    return Subresource(url, "script", fields=(("accept", "*/*"), *fields), **facts)


def need(store, page, subresource=SCRIPT, audience=""):
    """The number of the request, and whether the page waits and whether it is to be sent."""
    needed = store.need(page, subresource, audience)
    return needed.number, needed[1:]


def look_up(store, page, subresource=SCRIPT):
    """What an engine finds in a pass over *page*."""
    return stored_answers(str(store.path / FILE))(page)(subresource)


def found(store, page, subresource=SCRIPT):
    stored = look_up(store, page, subresource)
    return stored.body.decode() if isinstance(stored, Answer) else stored


@cases(
    "other is_same",
    """
    # The whole URL without its fragment.
    {"url": "http://A.test:80/app.js#x"}     | True
    {"url": "http://a.test/app.js?_=17"}     | False
    {"url": "http://a.test/app.js?t=1700000000"} | False
    # Fields of the script, and its Accept; not the kind.
    {"fields": (("x-own", "1"),)}            | False
    {"fields": (("accept", "text/css"),)}    | False
    {"method": "OPTIONS"}                    | False
    # The answer is not for all origins.
    {"origin": "http://b.test"}              | False
    """,
)
def test_what_differs_is_requested_by_itself(store, other, is_same):
    keep(store, ONE, OTHER)
    number, _ = need(store, ONE)
    assert (need(store, OTHER, asked(**other))[0] == number) == is_same
    store.answer(number, answer(), ONE)
    assert (found(store, OTHER, asked(**other)) == "1") == is_same


SOON = formatdate(time.time() + 3600)
LONG_AGO = formatdate(time.time() - 7200)


@cases(
    "status headers is_shared",
    """
    200 | {}                                                          | True
    404 | {}                                                          | True
    301 | {}                                                          | True
    # Not cacheable by heuristics (RFC 9110, section 15.1).
    302 | {}                                                          | False
    403 | {}                                                          | False
    429 | {}                                                          | False
    500 | {}                                                          | False
    503 | {}                                                          | False
    503 | {"Cache_Control": "max-age=60"}                             | True
    403 | {"Cache_Control": "public"}                                 | True
    200 | {"Cache_Control": "public, max-age=60"}                     | True
    200 | {"Cache_Control": "max-age=0, s-maxage=60"}                 | True
    200 | {"Cache_Control": "max-age=60", "Age": "61"}                | False
    200 | {"Cache_Control": "max-age=3600", "Date": LONG_AGO}         | False
    200 | {"Cache_Control": "max-age=x"}                              | False
    200 | {"Cache_Control": "no-cache"}                               | False
    200 | {"Expires": "0"}                                            | False
    200 | {"Expires": "Thu, 01 Jan 1970 00:00:00 GMT"}                | False
    200 | {"Expires": SOON}                                           | True
    200 | {"Expires": SOON, "Age": "7200"}                            | False
    200 | {"Vary": "Accept-Encoding, User-Agent, X-Own, Accept"}      | True
    200 | {"Vary": "Origin"}                                          | True
    """.replace("SOON", f'"{SOON}"').replace("LONG_AGO", f'"{LONG_AGO}"'),
)
def test_answers_are_shared_as_long_as_they_are_fresh(store, status, headers, is_shared):
    keep(store, ONE, OTHER)
    number, todo = need(store, ONE)
    assert todo == (True, True)
    assert need(store, OTHER) == (number, (True, False))
    store.forget(OTHER)
    keep(store, OTHER)
    assert store.answer(number, answer(status=status, **headers), ONE) == number
    assert found(store, ONE) == "1"  # it was fetched for this page
    assert (found(store, OTHER) == "1") == is_shared
    assert need(store, OTHER) == (number, (not is_shared, not is_shared))


@each(
    "headers",
    {"Vary": "*"},
    {"Cache_Control": "private, max-age=60"},
    {"Cache_Control": 'private="X-Own"'},
    {"Cache_Control": "no-store"},
)
def test_an_answer_that_is_not_shared_serves_only_the_page_it_was_requested_for(store, headers):
    keep(store, ONE, OTHER)
    number, _ = need(store, ONE)
    need(store, OTHER)
    assert store.answer(number, answer(**headers), ONE) != number
    assert (found(store, ONE), look_up(store, OTHER)) == ("1", None)
    # The other page waits for the same request as before.
    assert (store.pending_of(ONE), store.pending_of(OTHER)) == (set(), {number})
    assert need(store, OTHER) == (number, (True, False))
    assert store.answer(number, answer(b"2", **headers), OTHER) == number
    assert (found(store, ONE), found(store, OTHER)) == ("1", "2")
    store.forget(OTHER)
    assert look_up(store, OTHER) is None
    assert store.pending() == []


@cases(
    "headers asked_by same other",
    """
    # Whose answer each of two origins gets, after the first has asked with that Origin.
    {"Access-Control-Allow-Origin": "*"}                     | http://a.test | 1 | 1
    {"Access-Control-Allow-Origin": "*"}                     | ''            | 1 | 1
    {"Access-Control-Allow-Origin": "*", "Vary": "Origin"}   | http://a.test | 1 | None
    {"Access-Control-Allow-Origin": "http://a.test"}         | http://a.test | 1 | None
    {}                                                       | http://a.test | 1 | None
    {}                                                       | ''            | 1 | None
    """,
)
def test_origins_share_what_is_for_all_of_them(store, headers, asked_by, same, other):
    keep(store, ONE, OTHER)
    number, _ = need(store, ONE, asked(origin=asked_by))
    store.answer(number, Answer(200, [*headers.items()], b"1"), ONE)
    for origin, expected in ((asked_by, same), ("http://c.test", other)):
        text = found(store, OTHER, asked(origin=origin))
        assert text == (expected and str(expected))


@cases(
    "headers status others",
    """
    {"Access-Control-Allow-Origin": "*"}                              | 200 | 1
    {"Access-Control-Allow-Origin": "*", "Vary": "Origin"}            | 200 | None
    {"Access-Control-Allow-Origin": "*", "Cache-Control": "no-cache"} | 200 | None
    {"Access-Control-Allow-Origin": "*", "Cache-Control": "private"}  | 200 | None
    # Each origin follows a redirect in its own way.
    {"Access-Control-Allow-Origin": "*"}                              | 301 | None
    """,
)
def test_pages_of_other_origins_that_wait_get_what_is_for_all(store, headers, status, others):
    keep(store, ONE, OTHER)
    number, _ = need(store, ONE, asked(origin="http://a.test"))
    other_number, todo = need(store, OTHER, asked(origin="http://b.test"))
    assert (number != other_number, todo) == (True, (True, True))
    store.answer(number, Answer(status, [*headers.items()], b"1"), ONE)
    if others:
        assert found(store, OTHER, asked(origin="http://b.test")) == "1"
    assert (store.pending_request(other_number) is None) == bool(others)
    assert store.pending_of(OTHER) == (set() if others else {other_number})


def test_an_audience_gets_its_own_answer(store):
    keep(store, ONE, OTHER)
    own, _ = need(store, ONE, audience="own")
    foreign, todo = need(store, OTHER, audience="foreign")
    assert (own != foreign, todo) == (True, (True, True))
    store.answer(own, answer(b"secret", **STAR), ONE)
    store.answer(foreign, answer(b"public", **STAR), ONE)
    assert (found(store, ONE), found(store, OTHER)) == ("secret", "public")
    third = "http://a.test/3"
    keep(store, third)
    assert look_up(store, third) is None  # an engine does not know its audience
    assert need(store, third, audience="own") == (own, (False, False))
    assert found(store, third) == "secret"


@cases(
    "secs is_kept",
    """
    '600' | True
    ''    | True
    '0'   | False
    """,
)
def test_a_preflight_is_kept_as_long_as_it_says(store, secs, is_kept):
    keep(store, ONE, OTHER)
    preflight = asked(origin="http://b.test", method="OPTIONS")
    headers = {"Access_Control_Max_Age": secs} if secs else {}
    number, _ = need(store, ONE, preflight)
    store.answer(number, answer(b"", 204, Cache_Control="no-store", **headers), ONE)
    assert (look_up(store, OTHER, preflight) is not None) == is_kept
    later = "http://c.test/"
    store.keep(later, b"c", time.time() + 7300, 0, b"exchange")
    assert look_up(store, later, preflight) is None


@cases(
    "page_place place is_given",
    """
    public  | public  | True
    public  | private | False
    public  | a-proxy | False
    private | public  | True
    private | private | True
    private | a-proxy | True
    a-proxy | public  | True
    a-proxy | private | False
    a-proxy | a-proxy | True
    a-proxy | another | False
    # A handler of another package does not say.
    ''      | private | False
    ''      | ''      | True
    public  | ''      | False
    """,
)
def test_a_page_of_a_public_host_gets_nothing_from_a_private_address(
    store, page_place, place, is_given
):
    keep(store, OTHER)
    store.keep(ONE, b"", 1.0, 0, b"exchange", place=page_place)
    number, _ = need(store, ONE)
    store.answer(number, Answer(200, [], b"1", place), ONE)
    assert found(store, ONE) == ("1" if is_given else "private_address")


@cases(
    "policy page origin text",
    """
    same-origin  | http://a.test/1      | ''                 | 1
    same-origin  | http://sub.a.test/1  | ''                 | CORP
    same-site    | http://sub.a.test/1  | ''                 | 1
    same-site    | https://a.test/1     | ''                 | CORP
    same-site    | http://b.test/1      | ''                 | CORP
    cross-origin | http://b.test/1      | ''                 | 1
    nonsense     | http://b.test/1      | ''                 | 1
    same-origin  | http://b.test/1      | http://b.test      | 1
    """,
)
def test_a_resource_policy_keeps_answers_from_pages(store, policy, page, origin, text):
    keep(store, page)
    number, _ = need(store, page, asked(origin=origin))
    store.answer(number, answer(Cross_Origin_Resource_Policy=policy), ONE)
    assert found(store, page, asked(origin=origin)) == str(text)


def test_a_stale_answer_is_asked_for_and_may_be_used_again(store):
    keep(store, ONE, OTHER)
    first, _ = need(store, ONE)
    store.answer(first, answer(ETag='"x"', X_Kept="1", Cache_Control="no-cache"), ONE)
    number, todo = need(store, OTHER)
    assert todo == (True, True)
    assert store.head_of(number) == ("GET", {"accept": "*/*", "If-None-Match": '"x"'}, "")
    store.answer(number, answer(b"", 304, Cache_Control="max-age=60"), ONE)
    keep(store, "http://c.test/")
    for page in (OTHER, "http://c.test/"):
        assert look_up(store, page) == answer(ETag='"x"', X_Kept="1", Cache_Control="max-age=60")


def test_a_page_keeps_what_it_used_while_others_ask_again(store):
    keep(store, ONE)
    number, _ = need(store, ONE)
    waiting, _ = need(store, ONE, asked("http://a.test/app.js?of=one"))
    store.answer(number, answer(Cache_Control="no-cache"), ONE)
    keep(store, OTHER)
    assert look_up(store, OTHER) is None
    assert need(store, OTHER)[1] == (True, True)
    assert found(store, ONE) == "1"
    assert look_up(store, OTHER) is None
    store.answer(number, answer(b"2", Cache_Control="max-age=1"), ONE)
    assert found(store, OTHER) == found(store, ONE) == "2"
    # It was fresh when this page was fetched.
    store.keep("http://c.test/", b"c", time.time() + 0.5, 0, b"exchange")
    store.keep("http://d.test/", b"d", time.time() + 1.5, 0, b"exchange")
    assert found(store, "http://c.test/") == "2"
    assert look_up(store, "http://d.test/") is None
    store.close()
    store.open(forgets=False)
    assert store.pending_of(ONE) == {waiting}


def test_refusals_are_told_to_the_engine(store):
    keep(store, ONE, OTHER)
    number, _ = need(store, ONE)
    store.refuse(number, "robots_denied")
    assert look_up(store, ONE) == look_up(store, OTHER) == "robots_denied"


def test_a_refusal_for_one_page_is_not_for_others(store):
    keep(store, ONE, OTHER)
    number, _ = need(store, ONE)
    need(store, OTHER)
    assert store.refuse(number, "over_budget", OTHER) != number
    assert (look_up(store, ONE), look_up(store, OTHER)) == (None, "over_budget")
    assert store.pending() == [(number, SCRIPT.url, ONE)]
    # For a page that does not wait any more, nothing changes.
    assert store.refuse(number, "over_budget", OTHER) != number
    assert store.pending() == [(number, SCRIPT.url, ONE)]
    assert store.refuse(number, "over_budget", ONE) == number
    assert (look_up(store, ONE), store.pending()) == ("over_budget", [])


def test_a_page_keeps_an_older_answer_when_another_one_gets_its_own(store):
    keep(store, ONE, OTHER)
    number, _ = need(store, ONE)
    store.answer(number, answer(Cache_Control="no-cache"), ONE)
    assert need(store, OTHER) == (number, (True, True))
    store.answer(number, answer(b"2", Cache_Control="private"), OTHER)
    assert (found(store, ONE), found(store, OTHER)) == ("1", "2")
    assert store.pending_request(number) is None


@each(
    "end text",
    (lambda store, number: store.refuse(number, "timeout"), "timeout"),
    (lambda store, number: store.answer(number, answer(b"busy", 503), OTHER), "busy"),
    (lambda store, number: store.answer(number, answer(b"gone", 404), OTHER), "gone"),
)
def test_a_failure_takes_nothing_from_pages_that_have_an_answer(store, end, text):
    keep(store, ONE, OTHER)
    number, _ = need(store, ONE)
    store.answer(number, answer(Cache_Control="no-cache", ETag='"x"'), ONE)
    need(store, OTHER)
    end(store, number)
    assert (found(store, ONE), found(store, OTHER)) == ("1", text)
    assert store.pending() == []
    # Later the answer is asked for as if nothing had failed, and the newest one is used.
    since = time.time() + 7200
    store.keep("http://c.test/", b"c", since, 0, b"exchange")
    later = need(store, "http://c.test/")
    assert later == (number, (True, True))
    assert store.head_of(number)[1]["If-None-Match"] == '"x"'
    store.answer(number, answer(b"2", Cache_Control="max-age=9000"), "http://c.test/")
    store.keep("http://d.test/", b"d", since - 7000, 0, b"exchange")
    assert found(store, "http://d.test/") == "2"


@each(
    "end",
    lambda store, number: store.refuse(number, "robots_denied"),
    lambda store, number: store.answer(number, answer(b"", 204), ONE),
    lambda store, number: store.answer(number, answer(b"", 204, X_Long="x" * 1000), ONE),
    lambda store, number: store.refuse(number, "private_address", "http://gone.test/"),
)
def test_rows_without_a_body_make_room_too(store, end):
    keep(store, ONE)
    for one in range(50):
        number, _ = need(store, ONE, asked(f"http://a.test/{one}"))
        end(store, number)
        store.forget(ONE)
    ((rows,),) = store._rows("SELECT count(*) FROM requests")
    assert rows <= 25


def test_the_work_for_a_page_does_not_grow_with_the_store(tmp_path):
    store = RenderStore(path=tmp_path / "rendering")
    store.open(forgets=False)

    def steps_for_a_page():
        steps = []
        store._database.set_progress_handler(lambda: steps.append(0), 10)
        keep(store, ONE)
        number, _ = need(store, ONE)
        store.answer(number, answer(Cache_Control="private"), ONE)
        store.end_pass(ONE, 1, 0, "<p>", [])
        store.forget(ONE)
        store._database.set_progress_handler(None, 10)
        return len(steps)

    before = steps_for_a_page()
    keep(store, OTHER)
    for one in range(500):
        number, _ = need(store, OTHER, asked(f"http://a.test/{one}"))
        store.answer(number, answer(), OTHER)
    assert steps_for_a_page() < 2 * before
    assert look_up(store, ONE) is None
    store.close()


def test_room_for_a_large_answer_is_made_at_once(store):
    """With more rows, statements for each of them would hold the reactor."""
    keep(store, ONE)
    for one in range(20):
        number, _ = need(store, ONE, asked(f"http://a.test/{one}"))
        store.answer(number, answer(), ONE)
    store.forget(ONE)
    number, _ = need(store, ONE)
    statements = []
    store._database.set_trace_callback(statements.append)
    store.answer(number, answer(b"x" * 10_000), ONE)
    assert len(statements) < 15
    assert store._rows("SELECT count(*) FROM requests") == [(1,)]


def test_the_oldest_answers_that_no_page_needs_make_room(store):
    keep(store, ONE)
    urls = [asked(f"http://a.test/{number}.js") for number in range(4)]
    for url in urls:
        number, _ = need(store, ONE if url == urls[0] else "http://gone.test/", url)
        store.answer(number, answer(b"x" * 3000), ONE)
        store.forget("http://gone.test/")
    number, _ = need(store, ONE)
    store.answer(number, answer(b"x" * 3000), ONE)
    kept = [url for url in urls if look_up(store, ONE, url) is not None]
    assert kept == [urls[0], urls[3]]


def test_a_restart_finds_pages_and_what_they_wait_for_and_a_reboot_nothing(store):
    keep(store, OTHER, ONE)
    sent = asked(fields=(("x-own", "1"),), origin="http://a.test")
    number, _ = need(store, ONE, sent)
    store.end_pass(OTHER, passes=2, failures=1, html="<p>", refused=[(SCRIPT.url, "timeout")])
    store.close()
    store.open(forgets=False)
    first, second = store.pages()
    assert (first.url, first.html, first.passes, first.refusals) == (
        OTHER, "<p>", 2, [(SCRIPT.url, "timeout")]
    )  # fmt: skip
    assert (second.html, store.pending_of(ONE)) == (None, {number})
    assert (store.pending(), store.pending_request(number)) == ([(number, sent.url, ONE)], sent)
    expected = {"accept": "*/*", "x-own": "1", "Origin": "http://a.test"}
    assert store.head_of(number) == ("GET", expected, "")
    store.close()
    store.open(forgets=True)
    assert [*store.pages()] == store.pending() == []


CHANGES = {
    "need": lambda store, _: need(store, ONE, asked("http://a.test/new.js")),
    "needed again": lambda store, _: need(store, "http://c.test/"),
    "answer": lambda store, number: store.answer(number, answer(), ONE),
    "answer for one page": lambda store, number: store.answer(number, answer(Vary="*"), ONE),
    "answer for all origins": lambda store, number: store.answer(number, answer(**STAR), ONE),
    "failure": lambda store, number: store.answer(number, answer(status=503), ONE),
    "refusal": lambda store, number: store.refuse(number, "timeout"),
    "refusal for one page": lambda store, number: store.refuse(number, "timeout", ONE),
    "last pass": lambda store, _: store.end_pass(ONE, 1, 0, "<p>", []),
    "forget": lambda store, _: store.forget(ONE),
    "keep": lambda store, _: keep(store, ONE),
}


@each("change", *CHANGES)
def test_a_kill_between_two_statements_leaves_no_page_that_waits_for_nothing(
    store, tmp_path, change
):
    keep(store, ONE, OTHER, "http://c.test/")
    number, _ = need(store, "http://c.test/")
    store.answer(number, answer(Cache_Control="no-cache"), ONE)  # it is stale for the others
    need(store, ONE)
    need(store, OTHER, asked(origin="http://b.test"))
    copies = []

    def copy(_statement=""):
        copies.append(tmp_path / f"killed-{len(copies)}")
        shutil.copytree(store.path, copies[-1])

    store._database.set_trace_callback(copy)  # called before each statement
    CHANGES[change](store, number)
    store._database.set_trace_callback(None)
    copy()
    for path in copies:
        killed = RenderStore(path=path)
        killed.open(forgets=False)
        waiting = [page.url for page in killed.pages() if page.html is None]
        needed = {(number, page) for page in waiting for number in killed.pending_of(page)}
        assert {(number, page) for number, _, page in killed.pending()} == needed
        for number, _ in needed:
            assert killed.pending_request(number)
        killed.close()


def test_the_file_of_an_earlier_version_is_replaced(tmp_path):
    path = tmp_path / "rendering"
    path.mkdir()
    (path / "store.sqlite").write_bytes(b"of an earlier version")
    store = RenderStore(path=path)
    store.open(forgets=False)
    assert "store.sqlite" not in {file.name for file in path.iterdir()}
    keep(store, ONE)
    assert need(store, ONE)[1] == (True, True)
    store.close()

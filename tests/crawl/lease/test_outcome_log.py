"""The line and the signal of each URL that has come to its end."""

from disk import file_size_limit
from frontier_rig import entry
from lease_rig import page, see
from text_tables import each

from webcrawl import signals
from webcrawl.crawl.lease.fetch import PageState
from webcrawl.net.outcomes import ConnectRefusedError
from webcrawl.seen.fingerprint import fingerprint


def test_the_end_of_each_url_is_signalled_once(obedient):
    ends = []

    def heard(url, outcome, spider):
        ends.append((url, outcome))

    obedient.crawler.signals.connect(heard, signal=signals.url_finished)
    obedient.urls(2)
    obedient.rules(b"Disallow: /0")
    obedient.wait(3)
    assert obedient.next() is None
    request = obedient.next()
    obedient.end(request, page(404))
    assert ends == [("http://a.test/0", "robots_denied"), ("http://a.test/1", "http_404")]


def test_each_url_that_ends_has_a_line_that_says_why(obedient):
    obedient.push(entry("a.test", 0), entry("a.test", 1, depth=2))
    obedient.rules(b"Disallow: /0 # no")
    obedient.wait(3)
    assert obedient.next() is None

    def processed(fetch):
        see(obedient, 0xABC)(fetch)
        fetch.page.redirect_target = "http://a.test/next"

    obedient.answer(page(200), during=processed)
    denied, fetched = obedient.lines()
    assert (denied.url, denied.host, denied.outcome) == (
        "http://a.test/0",
        "a.test",
        "robots_denied",
    )
    assert (denied.robots, denied.status, denied.took) == ("Disallow: /0", 0, 0.0)
    assert (fetched.url, fetched.outcome, fetched.status) == ("http://a.test/1", "http_200", 200)
    assert (fetched.bytes, fetched.depth, fetched.tries) == (5, 2, 1)
    assert (fetched.content, fetched.duplicate) == ("0000000000000abc", False)
    assert fetched.redirect == "http://a.test/next"
    assert fetched.form == f"{fingerprint('http://a.test/1'):016x}"
    assert fetched.at == round(obedient.clock(), 3)


@each(
    "flags truncated undecodable",
    (["cached"], "", False),
    (["truncated"], "length", False),
    (["truncated", "body_cut"], "length", False),
    (["truncated", "time"], "time", False),
    (["dataloss"], "disconnect", False),
    (["undecodable"], "", True),
)
def test_what_a_body_lacks_is_in_its_line(desk, flags, truncated, undecodable):
    desk.urls(1)
    desk.answer(page(200).replace(flags=flags))
    (line,) = desk.lines()
    assert (line.outcome, line.truncated, line.undecodable) == ("http_200", truncated, undecodable)


@each(
    "header kind",
    ({"content_type": "Text/HTML; charset=utf-8"}, "text/html"),
    ({"content_type": "image/gif"}, "image/gif"),
    ({"content_type": f"x/{'y' * 200}"}, f"x/{'y' * 98}"),
    ({}, ""),
)
def test_the_type_of_an_answer_is_in_its_line_unless_it_is_html(desk, header, kind):
    desk.urls(1)
    desk.answer(page(200, **header))
    (line,) = desk.lines()
    assert line.type == kind
    assert (b'"type":' in desk.info.read_bytes()) == (kind != "text/html")


def test_a_coded_body_has_both_of_its_sizes_in_its_line(desk):
    desk.push(entry("a.test", 1), entry("a.test", 2))
    for meta in ({"wire_body": b"packed"}, {}):
        request = desk.next()
        request.meta.update(meta)
        desk.end(request, page(200, b"x" * 1000))
        desk.wait(3600)
    assert [(line.bytes, line.decoded) for line in desk.lines()] == [(6, 1000), (1000, 0)]


def test_only_the_last_of_several_tries_has_a_line(desk):
    desk.urls(1)
    for _ in range(3):
        desk.answer(ConnectRefusedError("no"))
        desk.wait(3600)
    (line,) = desk.lines()
    assert (line.outcome, line.tries) == ("connect_refused", 3)


def test_a_document_whose_processing_failed_is_no_original(desk):
    desk.urls(1)
    desk.answer(page(200), during=see(desk, 7, PageState.FAILED))
    assert desk.lines()[0].content == ""


def test_a_url_whose_line_cannot_be_written_is_not_finished(desk):
    desk.urls(1)
    request = desk.next()
    desk.info.write_bytes(b"x" * 100 + b"\n")
    log = desk.process.parts.services.outcome_log
    log.close()
    log.open()
    with file_size_limit(101):
        desk.end(request, page(200))
    assert desk.stop.has_begun
    assert len(desk.frontier.leases) == 1
    assert desk.outcomes == {}
    assert desk.info.read_bytes() == b"x" * 100 + b"\n"

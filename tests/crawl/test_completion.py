"""What becomes of a URL whose lease comes back."""

import errno
import os
from types import SimpleNamespace

from frontier_rig import POLICY, entry
from lease_rig import LEASE_SECS, attempts_of, budgets, page, put_back, see
from msgspec.structs import replace
from scrapy import Request
from scrapy.signals import item_error, spider_error
from text_tables import each
from twisted.python.failure import Failure

from webcrawl.crawl.lease.fetch import PageState
from webcrawl.crawl.lease.item_limit import ItemOverdueError
from webcrawl.crawl.links.reading import ReadingTooLongError
from webcrawl.frontier import Entry
from webcrawl.frontier.admission import Gate
from webcrawl.frontier.delay_policy import cut_off
from webcrawl.net.outcomes import ConnectionLostError, ConnectRefusedError, HostNotFoundError
from webcrawl.storage.record_log import read_records


def test_a_fetch_is_counted_when_it_begins_and_its_bytes_at_the_end(new_desk):
    desk = new_desk(parts=budgets())
    told = desk.hosts.budgets.ledger.told
    desk.push(entry("a.test", 0), entry("b.test", 0))
    first = desk.next()
    assert told == [("begun", "http://a.test/0")]
    desk.end(first, page())
    assert told[1:] == [(5, "http://a.test/0")]
    second = desk.next()
    put_back(second)
    desk.end(second, page())
    assert told[2:] == [("begun", "http://b.test/0"), ("put back", "http://b.test/0")]


class Returns(Gate):
    """A budget that notes which URLs are returned to it."""

    name = "returns"

    def __init__(self):
        self.returned = []

    def room(self, entry):
        return 1

    def let_out(self, entry):
        self.returned.append(entry.url)


def test_the_one_try_of_an_origin_that_never_answered_is_counted_nowhere(new_desk):
    gate = Returns()
    desk = new_desk(parts=budgets(gate))
    closed = Entry("http://a.test:81/", "a.test")
    desk.push(entry("a.test", 0), replace(closed, url=f"{closed.url}2"), closed)
    desk.answer(page())
    desk.wait(120)
    desk.answer(ConnectRefusedError("x"))
    desk.wait(120)
    assert desk.next() is None
    assert desk.is_empty
    told = desk.hosts.budgets.ledger.told
    assert told[2:] == [("begun", closed.url), ("returned", closed.url)]
    assert desk.outcomes == {"http_200": 1, "connect_refused": 2}
    assert gate.returned == [closed.url, f"{closed.url}2"]


def give_up_origin(desk):
    """Add two URLs of an origin that fails twice."""
    desk.urls(2)
    for _ in range(2):
        desk.answer(ConnectionLostError("x"))
        desk.wait(120)
    for _ in range(2):
        assert desk.next() is None


def test_urls_of_an_origin_that_is_given_up_return_what_they_took(new_desk):
    gate = Returns()
    desk = new_desk(parts=budgets(gate), POLITENESS_MAX_FAILURES=2, FRONTIER_RETRY_TIMES=1)
    give_up_origin(desk)
    assert desk.is_empty
    assert desk.outcomes == {"host_failing": 2}
    assert sorted(desk.hosts.budgets.ledger.told) == sorted(
        (what, f"http://a.test/{number}") for what in ("begun", "returned") for number in range(2)
    )
    assert sorted(gate.returned) == ["http://a.test/0", "http://a.test/1"]


def test_a_url_of_an_origin_that_is_given_up_leaves_the_url_space_once(new_desk):
    desk = new_desk(POLITENESS_MAX_FAILURES=2, FRONTIER_RETRY_TIMES=1, URL_SPACE_BASE_URLS=4)
    space = desk.hosts.budgets.traps.space
    for number in range(4):
        space.let_in(entry("a.test", number))
    give_up_origin(desk)
    assert desk.outcomes == {"host_failing": 2}
    found = 0
    while not space.hold(entry("a.test", found)):
        space.let_in(entry("a.test", found))
        found += 1
    assert found == 2


def test_urls_that_fail_while_their_origin_is_not_given_up_return_nothing(new_desk):
    gate = Returns()
    desk = new_desk(parts=budgets(gate), FRONTIER_RETRY_TIMES=0)
    desk.urls(2)
    desk.answer(ConnectionLostError("x"))
    desk.wait(120)
    desk.answer(page(404))
    assert desk.is_empty
    told = [what for what, _ in desk.hosts.budgets.ledger.told]
    assert told == ["begun", "begun", 5]
    assert gate.returned == []


def test_a_fetched_url_is_finished_and_its_host_rests(desk):
    desk.urls(2, depth=3)
    request = desk.next()
    assert (request.url, request.meta["depth"]) == ("http://a.test/0", 3)
    assert desk.next() is None
    desk.end(request, page())
    assert len(desk.frontier.leases) == 0
    assert desk.rests() == cut_off(POLICY, 0.0)
    assert desk.outcomes == {"http_200": 1}
    assert desk.stats.get_value("fetch/bytes") == 5
    desk.wait(3)
    assert desk.next().url == "http://a.test/1"


@each(
    "failure name tries",
    (page(503), "http_503", 3),
    (page(429), "http_429", 5),
    (page(501), "http_501", 1),
    (page(404), "http_404", 1),
    (ConnectRefusedError("x"), "connect_refused", 3),
    (HostNotFoundError("x"), "dns_not_found", 1),
    (KeyError("a bug"), "other", 2),
    ids=str,
)
def test_failures_are_tried_again_as_often_as_it_may_help(desk, failure, name, tries):
    desk.urls(1, depth=2)
    for attempts in range(tries):
        assert desk.counts("retry/") == ({name: attempts} if attempts else {})
        request = desk.answer(failure)
        assert attempts_of(request) == attempts
        assert request.meta["depth"] == 2
        assert len(desk.frontier.leases) == 0
        desk.wait(120)
    assert desk.next() is None
    assert desk.is_empty
    assert desk.outcomes == {name: 1}


@each("signal", None, spider_error, item_error, ids=["", "spider", "item"])
def test_a_url_that_meets_a_bug_at_the_end_is_for_the_next_run(desk, signal):
    desk.urls(1)
    last = desk.next()
    desk.completion.is_over_for_bugs = True
    if signal is None:
        desk.end(last, KeyError("x"))
    else:
        desk.end(last, page(), during=raising(desk, KeyError("x"), signal=signal))
    desk.wait(120)
    assert desk.outcomes == {}
    assert attempts_of(desk.next()) == 0


def test_the_document_of_a_finished_page_is_seen_after_a_crash_too(desk):
    desk.urls(1)
    desk.answer(page(), during=see(desk, 77))
    desk.content.discard(77)  # it is not in process any more
    assert desk.content.test(77)
    desk.crash()
    assert desk.content.test(77)


def test_a_page_that_was_not_processed_is_finished_and_not_seen(desk):
    desk.urls(1)
    desk.answer(page(), during=see(desk, 77, PageState.FAILED))
    assert desk.is_empty
    assert not desk.content.test(77)
    desk.crash()
    assert not desk.content.test(77)


def test_a_page_that_could_not_be_stored_goes_back_with_its_content(desk):
    desk.urls(2)
    desk.answer(page(), during=see(desk, 77, PageState.PUT_BACK))
    assert desk.outcomes == {}
    desk.wait(3)
    again = desk.next()
    assert again.url == "http://a.test/0"
    assert attempts_of(again) == 0
    desk.end(again, page(), during=see(desk, 77))
    assert desk.outcomes == {"http_200": 1}


def test_once_the_crawl_is_ending_nothing_is_finished(desk):
    desk.push(entry("a.test", 0), entry("b.test", 0))
    first, second = desk.next(), desk.next()
    desk.stop.fail(OSError(28, "full"))
    desk.end(first, page(), during=see(desk, 77))
    desk.end(second, ConnectRefusedError("x"))
    assert len(desk.frontier) == 2
    assert desk.outcomes == desk.counts("retry/") == {}
    assert not desk.content.test(77)


def test_a_download_that_never_came_to_an_end_goes_back(desk):
    desk.urls(1)
    request = desk.next()
    request.meta["fetch"].begin_download()
    put_back(request)
    desk.completion.done(request)
    assert len(desk.frontier) == 1
    assert desk.rests() == 63.0  # its server may go on for DOWNLOAD_TIMEOUT


def test_an_expired_lease_returns_and_what_comes_of_it_is_too_late(desk):
    desk.urls(1)
    late = desk.next()
    see(desk, 77)(late.meta["fetch"])
    desk.wait(LEASE_SECS + 1)
    desk.expire(LEASE_SECS)
    assert desk.stats.get_value("scheduler/expired") == 1
    desk.wait(120)
    again = desk.next()
    assert again.url == late.url
    # The second try must not find its own document in process.
    desk.end(again, page(), during=see(desk, 77))
    desk.end(late, page())
    assert desk.outcomes == {"http_200": 1}
    assert len(desk.frontier.leases) == 0


@each("obey", False, True)
def test_an_expired_page_is_counted_once(new_desk, obey):
    desk = new_desk(obey=obey, parts=budgets())
    desk.urls(1)
    desk.next()  # the page, or a robots.txt, which is none
    desk.wait(LEASE_SECS + 1)
    desk.expire(LEASE_SECS)
    pages = [] if obey else [("begun", "http://a.test/0"), ("put back", "http://a.test/0")]
    assert desk.hosts.budgets.ledger.told == pages


def test_an_expired_robots_txt_frees_its_host(obedient):
    obedient.urls(1)
    late = obedient.next()
    assert late.url == "http://a.test/robots.txt"
    obedient.wait(LEASE_SECS + 1)
    obedient.expire(LEASE_SECS)
    obedient.wait(120)
    again = obedient.next()
    assert again.url == "http://a.test/robots.txt"
    obedient.end(late, page(200, b"User-agent: *\nDisallow: /"))
    obedient.end(again, page(404))
    obedient.wait(3)
    assert obedient.next().url == "http://a.test/0"


def test_a_download_that_outlives_its_lease_is_broken_off(desk):
    desk.push(entry("a.test", 0), entry("b.test", 0))
    broken_off = []
    for _ in range(2):
        fetch = desk.next().meta["fetch"]
        fetch.begin_download()
        fetch.abort = lambda url=fetch.lease.entry.url: broken_off.append(url)
    fetch.end_download(page())
    desk.wait(LEASE_SECS + 1)
    desk.expire(LEASE_SECS)
    # The other one has left the wire, and a slow module may have its page.
    assert broken_off == ["http://a.test/0"]
    assert desk.stats.get_value("scheduler/expired") == 1


def test_a_request_with_the_meta_of_another_ends_no_lease(desk):
    desk.urls(1)
    request = desk.next()
    desk.completion.done(Request("http://b.test/", meta=request.meta))
    assert len(desk.frontier.leases) == 1
    desk.end(request, page())
    assert len(desk.frontier.leases) == 0
    desk.completion.done(request)
    assert desk.stop.has_begun is False


@each("writes", 0, 1)
def test_a_process_killed_during_a_retry_leaves_one_of_both_tries(desk, writes):
    desk.frontier.requeue(entry("a.test", 0))
    request = desk.next()
    log = desk.frontier.parts.log.path / f"{desk.frontier.parts.log.number:08d}.log"
    ends = [end for end, _ in read_records(log)]
    desk.end(request, page(503))
    later = [end for end, _ in read_records(log)][len(ends) :]
    os.truncate(log, [ends[-1], *later][writes])
    desk.crash()
    desk.wait(120)
    assert attempts_of(desk.answer(page())) == writes
    desk.wait(120)
    assert desk.next() is None
    assert desk.is_empty


def test_a_log_that_cannot_be_written_ends_the_crawl(desk, tmp_path):
    desk.push(entry("a.test", 0), entry("b.test", 0))
    first, second = desk.next(), desk.next()
    desk.frontier._log._log.close()
    desk.end(first, page())
    assert desk.stats.get_value("finish/cause") == "disk_error"
    # From then on all goes back.
    desk.end(second, page())
    assert len(desk.frontier) == 1
    assert len(desk.frontier.leases) == 1
    desk.crash()
    assert len(desk.frontier) == 0  # nothing was in a snapshot, nothing was finished


# --- what callbacks and processing modules raise


def raising(desk, *errors, signal=spider_error):
    """The callback, or a processing module, raises *errors*."""
    desk.completion.listen()

    def raise_all(fetch):
        for error in errors:
            desk.crawler.signals.send_catch_log(
                signal, failure=Failure(error), response=SimpleNamespace(request=request_of(fetch))
            )

    return raise_all


def request_of(fetch):
    return Request(fetch.url, meta={"fetch": fetch})


def test_a_page_whose_callback_raised_is_tried_again_as_after_a_bug(desk):
    desk.urls(1)
    for outcomes in ({}, {"http_200": 1}):
        desk.answer(page(), during=raising(desk, KeyError("x")))
        assert desk.counts("retry/") == {"other": 1}
        assert desk.outcomes == outcomes
        desk.wait(120)
    assert desk.next() is None


def test_a_page_that_cannot_be_read_in_time_ends_as_poison(desk):
    desk.urls(1)
    desk.answer(page(), during=raising(desk, ReadingTooLongError("x"), KeyError("y")))
    assert desk.outcomes == {"poison": 1}
    assert len(desk.frontier) == 0


def test_a_disk_that_is_full_while_a_callback_stores_a_page_ends_the_crawl(desk):
    desk.urls(1)
    request = desk.next()
    raising(desk, OSError(errno.ENOSPC, "full"))(request.meta["fetch"])
    assert request.meta["fetch"].page.state is PageState.PUT_BACK
    assert desk.stop.has_begun


@each(
    "error state ends",
    (KeyError("x"), PageState.FAILED, False),
    (ItemOverdueError(9.0, at_end=False), PageState.FAILED, False),
    (ItemOverdueError(9.0, at_end=True), PageState.PUT_BACK, False),
    (OSError(errno.ENOSPC, "full"), PageState.PUT_BACK, True),
    (OSError(errno.ENOENT, "its own file"), PageState.FAILED, False),
    ids=repr,
)
def test_what_a_processing_module_raises_decides_on_its_page(desk, error, state, ends):
    desk.urls(1)
    request = desk.next()
    raising(desk, error, signal=item_error)(request.meta["fetch"])
    assert request.meta["fetch"].page.state is state
    assert desk.stop.has_begun is ends
    desk.end(request, page())
    assert len(desk.frontier) == (state is PageState.PUT_BACK)

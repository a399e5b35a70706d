"""What is sent for a lease, if anything: gates, preconditions, robots.txt, sitemaps."""

import gc
import time
from types import SimpleNamespace

import pytest
from crawling import RIGS
from frontier_rig import entry
from lease_rig import Desk, budgets, page, put_back
from text_tables import each

from webcrawl.crawl.links import reading
from webcrawl.frontier import Entry, Supply
from webcrawl.frontier.admission import Gate
from webcrawl.hosts.robots.lookup import RobotsStatus
from webcrawl.net.dns.resolver import NameNotFoundError
from webcrawl.net.outcomes import ConnectRefusedError, HostNotFoundError
from webcrawl.render.engine import Subresource
from webcrawl.scheduler import MercatorScheduler
from webcrawl.urls import host_of


class Closed(Gate):
    """Holds whatever comes."""

    name = "full"

    def room(self, _):
        return 0


def test_a_url_that_a_gate_holds_is_parked_and_its_host_is_ready(new_desk):
    desk = new_desk(obey=True, parts=budgets(Closed()))
    desk.urls(2)
    assert desk.next() is None
    assert desk.next() is None
    assert desk.frontier.parked.counts == {"full": 2}
    assert (len(desk.frontier.leases), len(desk.frontier)) == (0, 0)
    assert desk.outcomes == {}


def test_a_redirected_robots_txt_waits_at_no_gate(new_desk):
    desk = new_desk(obey=True, parts=budgets(Closed()))
    robots_redirect = Entry(
        "http://b.test/robots.txt", "b.test", kind="robots", via="http://a.test"
    )
    desk.frontier.requeue(robots_redirect)
    assert desk.next() is None  # nobody waits for this one
    assert desk.frontier.parked.size == 0


def test_robots_txt_is_a_contact_of_its_own_and_the_url_waits(obedient):
    obedient.urls(1)
    robots = obedient.next()
    assert robots.url == "http://a.test/robots.txt"
    assert len(obedient.frontier) == 1
    assert len(obedient.frontier.leases) == 0
    assert obedient.next() is None
    obedient.end(robots, page(200, b"User-agent: *\nCrawl-delay: 30\n"))
    assert obedient.rests() == 30.0
    obedient.wait(30)
    request = obedient.next()
    assert request.url == "http://a.test/0"
    obedient.end(request, page())
    assert obedient.counts("robots/") == {"http_200": 1}
    assert obedient.outcomes == {"http_200": 1}


def test_a_page_has_the_line_of_robots_txt_by_which_it_was_let_through(obedient):
    obedient.urls(1)
    obedient.rules(b"Allow: /0\nDisallow: /")
    obedient.wait(3)
    request = obedient.next()
    # As after another fetch of it meanwhile.
    obedient.hosts.robots.robots_url(request.url)
    obedient.hosts.robots.note_answer(
        request.url, "http_200", page(200, b"User-agent: *\nDisallow: /")
    )
    assert request.meta["fetch"].robots_line == "Allow: /0"
    obedient.end(request, page())


def test_a_robots_txt_that_takes_too_long_to_be_read_is_unreachable(new_desk, monkeypatch):
    monkeypatch.setattr(reading, "_MAX_SECS", 0.01)
    obedient = new_desk(obey=True)
    gc.disable()  # the limit must not hit a callback of the collector, where it is only logged
    obedient.urls(1)
    rules = b"".join(b"Disallow: /\xc3\xa9%d*%%e9%d\n" % (i, i) for i in range(25_000))
    obedient.answer(page(200, b"User-agent: *\n" + rules))
    gc.enable()
    obedient.wait(3)
    assert obedient.next() is None
    assert obedient.outcomes == {"robots_unreachable": 1}
    # Nor is it read again.
    assert obedient.hosts.robots.verdict_on("http://a.test/1").status is RobotsStatus.UNREACHABLE


def test_what_robots_txt_forbids_is_given_up_without_a_contact(obedient):
    obedient.urls(2)
    obedient.rules(b"Disallow: /0")
    obedient.wait(3)
    assert obedient.next() is None
    # Nothing was sent, so the host is ready for the next one.
    assert obedient.next().url == "http://a.test/1"
    assert obedient.outcomes == {"robots_denied": 1}


def test_urls_of_an_unreachable_host_are_given_up_with_its_reason(obedient):
    obedient.urls(2)
    for _ in range(3):
        obedient.answer(ConnectRefusedError("x"))
        obedient.wait(120)
    assert obedient.next() is None
    assert obedient.next() is None
    assert obedient.is_empty
    assert obedient.outcomes == {"connect_refused": 2}


def test_a_robots_txt_that_was_broken_off_tells_nothing(obedient):
    obedient.urls(1)
    robots = obedient.next()
    robots.meta["fetch"].begin_download()
    put_back(robots)
    obedient.completion.done(robots)
    obedient.wait(64)
    assert obedient.next().url == "http://a.test/robots.txt"
    assert obedient.counts("robots/") == {}


@each("obey", False, True)
def test_where_an_address_has_a_clock_the_fetch_is_bound_to_it(new_desk, names, obey):
    desk = new_desk(obey=obey, addresses=names, POLITENESS_KEY="address")
    names.found = {"a.test": ["::ffff:8.8.8.8"], "b.test": ["8.8.8.8"], "c.test": ["9.9.9.9"]}
    desk.push(entry("a.test", 0), entry("b.test", 0), entry("c.test", 0))
    first, none, third = desk.next(), desk.next(), desk.next()
    assert none is None, "it is the same address in another spelling"
    assert [one.meta["fetch"].address for one in (first, third)] == ["::ffff:8.8.8.8", "9.9.9.9"]
    desk.end(first, page(404))
    desk.wait(3)
    second = desk.next()
    assert host_of(second.url) == "b.test"
    assert second.meta["fetch"].address == "8.8.8.8"


def test_a_fetch_is_bound_to_no_address_unless_addresses_have_clocks(resolving, names):
    names.found["a.test"] = ["8.8.8.8"]
    resolving.urls(1)
    assert resolving.next().meta["fetch"].address == ""


@each("found", HostNotFoundError("x"), "")
def test_urls_of_a_host_without_an_address_are_given_up(resolving, names, found):
    names.found["a.test"] = NameNotFoundError("x") if found else []
    resolving.urls(2)
    assert resolving.next() is None
    assert resolving.next() is None
    outcome = "dns_not_found" if found else "address_forbidden"
    assert resolving.outcomes == {outcome: 2}
    assert resolving.is_empty


SITEMAPS = b"""Sitemap: http://a.test/map.xml
User-agent: *
Disallow: /map2.xml
Sitemap: http://b.test:80/map 3.xml
Sitemap: mailto:x@a.test
Sitemap: http://a.test/map.xml
"""


def test_sitemaps_of_robots_txt_are_submitted_once_at_the_url_s_depth(obedient):
    obedient.push(entry("a.test", 0, depth=2), entry("a.test", 1, depth=5))
    obedient.answer(page(200, SITEMAPS))
    assert obedient.found() == []
    obedient.wait(3)
    obedient.answer(page())
    obedient.wait(3)
    obedient.answer(page())
    assert [(e.url, e.host, e.depth, e.via, e.kind) for e in obedient.found()] == [
        ("http://a.test/map.xml", "a.test", 2, "http://a.test/robots.txt", "sitemap"),
        ("http://b.test/map%203.xml", "b.test", 2, "http://a.test/robots.txt", "sitemap"),
    ]


def test_sitemaps_are_not_followed_unless_they_are_asked_for(new_desk):
    desk = new_desk(obey=True, LINK_KINDS=["a"])
    desk.urls(1)
    desk.answer(page(200, SITEMAPS))
    desk.wait(3)
    desk.answer(page())
    assert desk.found() == []


def test_a_robots_txt_of_an_earlier_run_names_its_sitemaps_again(tmp_path, clock, new_desk):
    earlier = Desk(tmp_path, clock, obey=True)
    earlier.urls(1)
    earlier.answer(page(200, SITEMAPS))
    earlier.close()
    clock.advance(3)
    resumed = new_desk(obey=True)
    resumed.urls(1)
    assert resumed.next().url == "http://a.test/0"
    assert len(resumed.found()) == 2


def redirect_of_robots(desk, host="b.test"):
    desk.urls(1)
    desk.answer(page(301, Location=f"http://{host}/rules.txt"))


def test_robots_txt_on_another_host_is_fetched_in_that_host_s_turn(obedient):
    host = "www.a.test"
    obedient.push(entry(host, 0), entry(host, 1))
    own = obedient.next()
    assert own.url == f"http://{host}/robots.txt"
    redirect_of_robots(obedient, host)
    # That host is in process: nothing may be asked of it.
    assert obedient.next() is None
    obedient.end(own, page(404))
    assert obedient.next() is None
    obedient.wait(3)
    # The page that needs it is looked at first, and waits without a worker.
    robots_redirect = obedient.next() or obedient.next()
    # It goes before the pages of its host.
    assert robots_redirect.url == f"http://{host}/rules.txt"
    assert obedient.next() is None
    obedient.end(robots_redirect, page(200, b"User-agent: *\nDisallow: /0\n"))
    assert obedient.rests() <= 3.0
    obedient.wait(3)
    for number in range(2):
        # The URL of a.test, which is forbidden, may be looked at first.
        request = obedient.next() or obedient.next()
        assert request.url == f"http://{host}/{number}"
        obedient.end(request, page())
        obedient.wait(3)
    assert obedient.outcomes == {"robots_denied": 1, "http_200": 2}
    assert obedient.counts("robots/") == {
        "http_301": 1,
        "http_404": 1,
        "http_200": 1,
        "redirects": 1,
    }
    assert obedient.is_empty


def test_a_robots_redirect_to_another_domain_gets_one_turn_in_four(obedient):
    obedient.push(*(entry("b.test", number) for number in range(30)))  # more than a few
    obedient.answer(page(404))  # the robots.txt of b.test
    redirect_of_robots(obedient)
    sent = []
    while len(sent) < 5:
        obedient.wait(3)
        request = obedient.next()
        if request is not None and "b.test" in request.url:
            sent.append(request.url.rpartition("/")[2])
            obedient.end(request, page(404))
        elif request is not None:
            obedient.end(request, page())
    assert sent == ["0", "1", "2", "rules.txt", "3"]


def test_a_robots_redirect_to_a_host_without_address_is_unreachable(new_desk, names):
    desk = new_desk(obey=True, addresses=names)
    names.found = {"a.test": ["8.8.8.8"], "b.test": NameNotFoundError("x")}
    redirect_of_robots(desk)
    assert desk.next() is None
    desk.wait(3)
    assert desk.next() is None
    assert desk.outcomes == {"dns_not_found": 1}
    assert desk.is_empty


def test_a_robots_redirect_within_a_key_goes_before_its_waiting_urls(new_desk):
    desk = new_desk(obey=True, POLITENESS_KEY="domain")
    images, rules = "http://img.example.com", "http://www.example.com/robots.txt"
    desk.push(Entry(f"{images}/0", "example.com"))
    desk.answer(page(301, Location=rules))
    # Somebody is in a hurry, and comes before the robots redirect.
    desk.frontier.requeue(Entry(f"{images}/1", "example.com", attempts=1), ahead=True)
    desk.wait(3)
    assert desk.next() is None
    desk.wait(3)
    robots_redirect = desk.next()
    assert robots_redirect.url == rules
    desk.end(robots_redirect, page(404))
    desk.wait(3)
    assert desk.next().url == f"{images}/1"


def test_a_lost_robots_redirect_is_not_fetched_once_rules_are_known(obedient):
    redirect_of_robots(obedient)
    obedient.wait(3600)
    # Its host has not had a turn for it in an hour: robots.txt is asked for anew.
    busy = obedient.frontier.acquire("b.test")
    again = obedient.next()
    assert again.url == "http://a.test/robots.txt"
    obedient.end(again, page(404))
    obedient.frontier.leases.put_back(busy)
    obedient.frontier.contacts.release("b.test", rest=0.0)
    obedient.wait(3)
    sent = [request.url for request in (obedient.next(), obedient.next()) if request]
    assert sent == ["http://a.test/0"]
    assert len(obedient.frontier) == 0
    obedient.expire(-1.0)


def test_after_kill_9_robots_txt_is_asked_for_anew_where_it_was_redirected(obedient):
    obedient.frontier.requeue(entry("a.test", 0))
    obedient.answer(page(301, Location="http://b.test/rules.txt"))
    obedient.crash()
    obedient.wait(120)
    sent = [request.url for request in (obedient.next(), obedient.next()) if request]
    assert sent == ["http://a.test/robots.txt"]
    obedient.expire(-1.0)


def test_urls_that_are_hard_to_judge_do_not_hold_the_reactor(obedient):
    # A robots.txt that takes as long as any for a URL.
    rules = b"".join(b"Allow: *%x\n" % number for number in range(40_000))
    obedient.push(*(Entry(f"http://a.test/{'q' * 2000}/{n}", "a.test") for n in range(64)))
    obedient.answer(page(200, b"User-agent: *\nDisallow: /\n" + rules))
    obedient.wait(3)
    alarms = []
    scheduler = SimpleNamespace(
        process=obedient.process,
        _hooks=obedient.process.parts.hooks,
        _dispatcher=obedient.dispatcher,
        _completion=obedient.completion,
        _shards=obedient.process.shards,
        _live=SimpleNamespace(workers=1),
        _rates=obedient.process.parts.services.rules.rates,
        _engine=SimpleNamespace(
            scraper=SimpleNamespace(slot=None),
            downloader=SimpleNamespace(needs_backout=lambda: False),
        ),
        _alarm=SimpleNamespace(set=alarms.append),
    )
    assert MercatorScheduler.next_request(scheduler) is None
    denied = obedient.outcomes["robots_denied"]
    assert 0 < denied < 64
    # It goes on with the rest at once.
    assert alarms[0] <= time.monotonic()
    while len(obedient.frontier):
        MercatorScheduler.next_request(scheduler)
    assert obedient.outcomes == {"robots_denied": 64}


RENDERING = {"RENDER": "all", "RENDER_ENGINE": "asking_engine:AskingEngine"}
SCRIPT = "http://a.test/app.js"


@pytest.fixture
def rendering_desk(new_desk, monkeypatch):
    """A desk at which pages of a.test and b.test wait to be rendered, and their Passes."""
    monkeypatch.setenv("PYTHONPATH", RIGS)
    desk = new_desk(**RENDERING)
    passes = desk.process.parts.services.renderer
    for host in ("a.test", "b.test"):
        passes.keep(Entry(f"http://{host}/", host), b"", place="private")
    yield desk, passes
    passes.close()


def _needed(desk, passes, host, audience="", url=SCRIPT):
    """A page of *host* needs the script *url*."""
    need = passes.store.need(f"http://{host}/", Subresource(url, "script"), audience)
    assert passes._submit(url, need.number, f"http://{host}/") == ""
    return need.number


@each(
    "hold",
    lambda origins: origins.rest("http://a.test:81", 10.0),
    lambda origins: origins.hold(Entry("http://a.test:82/", "a.test")),  # it has the turn
)
@each("is_dropped", False, True)
def test_a_script_whose_port_rests_or_has_no_turn_waits_for_it(rendering_desk, hold, is_dropped):
    desk, passes = rendering_desk
    hold(desk.hosts.budgets.origins)
    url = "http://a.test:81/app.js"
    number = _needed(desk, passes, "b.test", url=url)
    assert desk.next() is None
    assert desk.frontier.parked.counts["failing_origin"] == 1
    assert passes.store.pending_of("http://b.test/") == {number}
    if is_dropped:  # scrapy control drop
        drop = desk.completion.drop_parked
        assert drop(desk.shard, "failing_origin", 10, lambda host: host == "a.test") == 1
        assert passes.store.pending_of("http://b.test/") == set()
        assert desk.is_empty
        return
    desk.wait(61)
    assert desk.shard.admission.work(Supply.NOW)
    assert desk.next().url == url


def test_nothing_is_sent_in_the_turn_of_a_page_that_is_gone(rendering_desk):
    """A proxy may reach private addresses, and the page is no longer there to say its own."""
    desk, passes = rendering_desk
    for host in ("b.test", "a.test"):
        _needed(desk, passes, host, url="http://c.test/app.js")
    passes.forget(Entry("http://b.test/", "b.test"))
    requests = [desk.next(), desk.next()]
    assert [one and one.meta["fetch"].lease.entry.via for one in requests] == [
        None, "http://a.test/"
    ]  # fmt: skip
    passes.forget(Entry("http://a.test/", "a.test"))
    desk.end(requests[1], page())
    _needed(desk, passes, "a.test")
    passes.forget(Entry("http://a.test/", "a.test"))
    assert desk.next() is None
    assert desk.is_empty


@each("audience is_withheld", ("", True), ("foreign", True), ("own", False))
def test_what_is_sent_for_pages_of_other_sites_too_has_no_credentials(
    rendering_desk, audience, is_withheld
):
    """They may have been added while the request waited."""
    desk, passes = rendering_desk
    _needed(desk, passes, "a.test", audience)
    request = desk.next()
    assert request.url == SCRIPT
    assert request.meta["dont_merge_cookies"] == is_withheld


@each(
    "end requested",
    (lambda desk, passes: passes.forget(Entry("http://b.test/", "b.test")), 0),
    (lambda desk, passes: desk.hosts.budgets.gates.append(Closed()), 0),
    (lambda desk, passes: None, 1),
)
def test_what_is_not_sent_takes_nothing_of_the_share_of_a_domain(rendering_desk, end, requested):
    desk, passes = rendering_desk
    _needed(desk, passes, "b.test")
    find = desk.hosts.records.domains.find
    assert find("b.test").requested == 1
    end(desk, passes)
    request = desk.next()
    assert (request is not None) == requested
    if request is not None:
        desk.end(request, ConnectRefusedError("x"))
        desk.hosts.budgets.gates.append(Closed())  # it is not tried again
        desk.wait(120)
        assert desk.next() is None
    assert desk.is_empty
    assert find("b.test").requested == requested


@each("method", "GET", "OPTIONS")
def test_a_preflight_is_a_contact_of_the_asked_host(rendering_desk, method):
    desk, passes = rendering_desk
    asked = Subresource(SCRIPT, "fetch", "http://b.test", method=method)
    via = "http://b.test/"
    need = passes.store.need(via, asked, "")
    assert passes._submit(SCRIPT, need.number, via) == ""
    request = desk.next()
    assert (request.method, request.headers["Origin"]) == (method, b"http://b.test")
    desk.end(request, page(204, b"", Access_Control_Max_Age="60"))
    assert desk.stats.get_value("contacts") == desk.stats.get_value("hosts/contacted") == 1
    records = desk.hosts.records
    record = records.get("a.test")
    assert (record.begun, len(record.took), record.ended_at > 0) == (1, 1, True)
    assert (records.domains.find("a.test").parts, records.get("b.test").begun) == (1, 0)
    desk.urls(1)
    assert desk.rests() == 3.0


def test_a_script_that_only_another_page_gets_is_sent_again(rendering_desk):
    desk, passes = rendering_desk
    number = _needed(desk, passes, "a.test")
    request = desk.next()
    assert _needed(desk, passes, "b.test") == number

    def meanwhile(_):
        desk.wait(3)
        assert desk.next() is None

    desk.end(request, page(200, b"x", Cache_Control="private"), during=meanwhile)
    assert passes.store.pending_of("http://a.test/") == set()
    assert passes.store.pending_of("http://b.test/") == {number}
    desk.wait(3)
    assert desk.next().url == SCRIPT

"""The truth that the web states about itself, held against what is really served."""

import asyncio

import simweb_client
from protego import Protego
from simweb_client import hosts_of
from text_tables import each
from web_truth import ANSWERING, allowed_urls, fetchable_urls, is_endless_url, reachable_urls

from webcrawl.simweb import Faults, World, preset
from webcrawl.simweb.host_spec import Behaviour, RobotsKind
from webcrawl.simweb.pages import page
from webcrawl.simweb.robots import BIG_BYTES, MOVED_PATH, robots_of

AGENT = simweb_client.AGENT

# Every fault and every kind of page, in a web that is fetched in seconds.
WORLD = World(
    hosts=80,
    seed=11,
    http_port=0,
    https_port=0,
    mean_pages=9,
    max_pages=80,
    restricting=0.4,
    endless=0.1,
    redirects=0.06,
    odd_charsets=0.06,
    large_files=0.003,
    large_bytes=400_000,
    slow_secs=0.05,
    stall_secs=0.2,
    throttle_secs=0.01,
    faults=Faults(**dict.fromkeys(Faults.__dataclass_fields__, 0.03)),
)


def crawl(web, *, polite):
    client = simweb_client.Client(web.dns, web.ca_path)
    return asyncio.run(
        simweb_client.crawl(client, list(web.world.seeds()), skip=is_endless_url, polite=polite)
    )


def test_a_polite_crawl_finds_exactly_what_the_truth_says(web):
    found = crawl(web, polite=True)
    assert set(found) == allowed_urls(web.world, AGENT)
    fetched = {url for url, status in found.items() if status == 200}
    assert fetched == fetchable_urls(web.world, AGENT)


def test_an_impolite_crawl_finds_exactly_what_is_reachable(web):
    found = crawl(web, polite=False)
    assert set(found) == reachable_urls(web.world)
    assert {200, 301, 302, 303, 307, 308, 403, 404, 410, 500, 503} <= set(found.values())


@each("name own", ("mercator", 0), ("clean", 0), ("today", 0), ("clean", 0.25))
def test_every_page_of_a_host_that_answers_is_reachable(name, own):
    world = preset(name, hosts=300, seed_share=0.3, ftp=own, gopher=own)
    reachable = reachable_urls(world)
    for host in hosts_of(world):
        urls = {host.origin + page(world, host, number).path for number in range(host.pages)}
        if host.behaviour is Behaviour.SERVER_ERROR:
            assert host.origin + "/" in reachable
        elif host.behaviour in ANSWERING:
            assert urls <= reachable
        else:
            assert not urls & reachable


@each("share", 0.01, 0.2, 1.0)
def test_every_root_can_be_found_politely_unless_the_host_forbids_it(share):
    world = preset("clean", hosts=400, seed_share=share)
    allowed = allowed_urls(world, AGENT)
    for host in hosts_of(world):
        forbids = host.robots in {RobotsKind.DENY_ALL, RobotsKind.UNAVAILABLE}
        assert (host.origin + "/" in allowed) != forbids


# robots.txt


def host_with(kind, *, behaviour=Behaviour.SOUND, delay=False, world=None):
    world = world or World()
    found = hosts_of(world, robots=kind, behaviour=behaviour)
    return world, next(host for host in found if bool(host.crawl_delay) >= delay)


def rules_with(kind, **options):
    world, host = host_with(kind, **options)
    answer = robots_of(world, host, MOVED_PATH if kind is RobotsKind.REDIRECT else "/robots.txt")
    assert answer.status == 200
    return host, Protego.parse(answer.body.decode("utf-8-sig", "replace"))


@each(
    "kind allowed forbidden",
    (RobotsKind.EMPTY, ["/private/x", "/"], []),
    (RobotsKind.ALLOW_ALL, ["/private/x", "/"], []),
    (RobotsKind.HTML, ["/private/x", "/"], []),
    (RobotsKind.BINARY, ["/private/x", "/"], []),
    (RobotsKind.PREFIX, ["/", "/news/x", "/tmp"], ["/private/x", "/tmp/", "/cgi-bin/y"]),
    (RobotsKind.WILDCARD, ["/", "/a.pdf/"], ["/a.pdf", "/x/b.gif", "/news/view?id=3"]),
    (RobotsKind.OVERRIDE, ["/", "/archive/bora-3", "/tmp/view?id=1"], ["/archive/x", "/tmp/b"]),
    (RobotsKind.AGENTS, ["/", "/cgi-bin/x"], ["/private/x", "/archive/y"]),
    (RobotsKind.BOM_CRLF, ["/", "/tmp/x"], ["/private/x", "/cgi-bin/x"]),
    (RobotsKind.BIG, ["/", "/tmp/x"], ["/private/x", "/archive/x"]),
    (RobotsKind.REDIRECT, ["/", "/archive/x"], ["/private/x", "/tmp/x"]),
    (RobotsKind.DENY_ALL, [], ["/", "/news/x"]),
)
def test_rules_say_what_their_kind_is_called(kind, allowed, forbidden):
    host, rules = rules_with(kind)
    for path in allowed:
        assert rules.can_fetch(host.origin + path, AGENT), path
    for path in forbidden:
        assert not rules.can_fetch(host.origin + path, AGENT), path


def test_other_crawlers_have_other_rules():
    host, rules = rules_with(RobotsKind.AGENTS)
    assert not rules.can_fetch(host.origin + "/", "otherbot")
    assert rules.can_fetch(host.origin + "/private/x", "googlebot")
    world = World(hosts=300, restricting=0.5)
    assert len(allowed_urls(world, "otherbot")) < len(allowed_urls(world, AGENT))


@each("kind", RobotsKind.ALLOW_ALL, RobotsKind.PREFIX, RobotsKind.AGENTS, RobotsKind.BOM_CRLF)
def test_crawl_delays_can_be_read(kind):
    world = World(crawl_delays=0.5, restricting=0.5)
    host, rules = rules_with(kind, delay=True, world=world)
    assert rules.crawl_delay(AGENT) == host.crawl_delay
    assert host.crawl_delay in {0.5, 1.0, 2.0}


def test_robots_files_that_are_not_there_answer_so():
    for kind, status in (
        (RobotsKind.MISSING, 404),
        (RobotsKind.FORBIDDEN, 403),
        (RobotsKind.UNAVAILABLE, 503),
        (RobotsKind.REDIRECT, 301),
    ):
        assert robots_of(*host_with(kind)).status == status
    world, host = host_with(RobotsKind.MISSING, behaviour=Behaviour.SERVER_ERROR)
    assert robots_of(world, host).status == 503
    assert robots_of(*host_with(RobotsKind.PREFIX), MOVED_PATH).status == 404


def test_big_robots_files_are_bigger_than_crawlers_must_read():
    assert len(robots_of(*host_with(RobotsKind.BIG)).body) >= BIG_BYTES > 500 * 1024

"""Subresources wait next to the pages of their host, and get only some of its turns."""

from collections import Counter

from frontier_rig import entry
from text_tables import cases, each

from webcrawl.frontier import SUBRESOURCE, Entry, Supply, overflow

HOST = "victim.test"
PAGES = 200


def part(page, name, host=HOST):
    """The subresource *name* of *host*, which *page* asks for."""
    return Entry(f"http://{host}/{name}", host, via=f"http://{page}", kind=SUBRESOURCE)


def ask(rig, site, pages, urls):
    """Let *pages* pages of *site* ask for *urls* URLs of the host each."""
    for page in range(pages):
        for number in range(urls):
            rig.requeue(part(f"{site}/{page}", f"{site}/{page}/{number}"))


def contacted(rig, contacts=None):
    """The entries that the host is contacted for, one after the other."""
    found = []
    while len(found) != contacts and (lease := rig.next()) is not None:
        rig.fetch(lease)
        found.append(lease.entry)
    return found


def by_site(entries):
    return Counter(one.via.split("/")[2] if one.via else HOST for one in entries)


def is_page(one):
    return one.kind != SUBRESOURCE


@cases(
    "askers most",
    """
    # others ask, the host's own pages do, both
    ["evil.test"]                               | {"evil.test": 0.25}
    ["www.victim.test"]                         | {"www.victim.test": 0.5}
    ["evil.test", "www.victim.test"]            | {"evil.test": 0.25, "www.victim.test": 0.5}
    ["evil.test", "b.evil.test", "other.test"]  | {"other.test": 0.125}
    """,
)
def test_pages_of_the_host_keep_their_turns(rig, askers, most):
    for site in askers:
        ask(rig, site, 12, 256)
    rig.fill(HOST, PAGES)
    found = contacted(rig)
    assert len(found) == len(askers) * 12 * 256 + PAGES
    last_page = max(place for place, one in enumerate(found) if is_page(one))
    for begin in range(0, last_page - 8, 8):
        sites = by_site(found[begin : begin + 8])
        assert sites[HOST] >= 4
        assert sites["www.victim.test"] + sites[HOST] >= 6
        assert all(sites[site] <= 8 * share for site, share in most.items())


def test_domains_that_ask_take_turns_and_their_pages_are_first_in_first_out(rig):
    ask(rig, "evil.test", 2, 20)
    ask(rig, "good.test", 1, 3)
    ask(rig, "b.good.test", 1, 1)
    found = contacted(rig)
    domains = ["evil" if "evil" in one.via else "good" for one in found]
    assert domains[:9] == ["evil", "good"] * 4 + ["evil"]
    evil = [one.url for one in found if "evil" in one.via]
    assert evil == [f"http://{HOST}/evil.test/{page}/{n}" for page in range(2) for n in range(20)]


@each("is_contacted", True, False)
def test_a_turn_without_a_contact_is_not_used_up(rig, is_contacted):
    """Denied pages, and those whose host has to be looked up first, leave the turns as they are."""
    ask(rig, "evil.test", 1, 50)
    rig.fill(HOST, 400)
    contacts = []
    while len(contacts) < 80:
        lease = rig.next()
        if lease.id % 3 and is_page(lease.entry):
            if is_contacted:  # robots.txt, while the page waits
                rig.put_back(lease)
            else:
                rig.finish(lease)
            rig.release(HOST, fetched=is_contacted)
        elif lease.id % 5 == 0 and not is_page(lease.entry):
            rig.put_back(lease)
            rig.release(HOST, fetched=False)
        else:
            rig.fetch(lease)
            contacts.append(lease.entry)
    assert [is_page(one) for one in contacts] == [True, True, True, False] * 20


def test_many_subresources_wait_on_disk(rig, monkeypatch):
    monkeypatch.setattr(overflow, "SEGMENT_BYTES", 2000)
    for _ in range(2):
        ask(rig, "evil.test", 10, 100)
        assert (len(rig.frontier), bool(rig.back.table.get(HOST))) == (1000, True)
        files = [*rig.path.glob("back/*/*.log")]
        assert sum(file.stat().st_size for file in files) > 5_000
        urls = [one.url for one in contacted(rig)]
        assert (len({*urls}), len(urls)) == (1000, 1000)
        assert (len(rig.frontier), bool(rig.back.table.get(HOST))) == (0, False)
        rig.publish()
        rig.publish()
        assert [*rig.path.glob("back/*/*.log")] == []


def test_a_restart_forgets_subresources_but_no_rest_and_no_page(rig):
    rig.fill(HOST, 3)
    ask(rig, "evil.test", 2, 100)
    first = rig.next()
    rig.publish()
    rig.fetch(first)
    until = rig.ready_at()
    lease = rig.next()
    rig.requeue(entry(HOST, 1000))
    rig.release(lease.entry.host, took=0.1)
    rig.retry(lease, part("evil.test/0", "again"))
    rig.crash()
    assert rig.ready_at() >= until
    ask(rig, "evil.test", 1, 5)
    found = contacted(rig)
    assert [one.url for one in found if is_page(one)] == [
        f"http://{HOST}/2",
        f"http://{HOST}/1000",
    ]
    assert sum(not is_page(one) for one in found) == 5
    # Nothing is left to be looked up for each URL that is found.
    assert rig.frontier.finished.size == 0


def test_rounds_of_budgets_do_not_wait_for_subresources(rig):
    """The supply is that of pages, also of hosts that have both."""
    ask(rig, "evil.test", 1, 3)
    lease = rig.next()
    assert rig.supply is Supply.LATER
    rig.fetch(lease)
    assert rig.supply is Supply.LATER
    lease = rig.next()
    rig.fill(HOST, 1)
    rig.refill_all()
    assert rig.supply is Supply.SOON
    rig.fetch(lease)
    assert rig.supply is Supply.SOON
    lease = rig.next()
    assert is_page(lease.entry)
    assert rig.supply is Supply.SOON
    rig.fetch(lease)
    assert rig.supply is Supply.LATER
    rig.fill("other.test", 2)
    rig.fetch(rig.next())
    assert rig.supply is Supply.SOON
    rig.drain()
    assert rig.supply is Supply.NONE


def foreign(via, serial, host=HOST):
    """A page of *host* that only a page of the site *via* has named."""
    return Entry(f"http://{host}/{via}/{serial}", host, via=f"http://{via}/", foreign=1)


def test_foreign_pages_get_one_turn_in_four(rig):
    rig.push(*(foreign("evil.test", serial) for serial in range(100)))
    rig.fill(HOST, 30)
    found = contacted(rig, 40)
    assert [one.foreign for one in found] == [0, 0, 0, 1] * 10
    # When no own page is left, all turns are theirs, in the order in which they were found.
    urls = [one.url for one in (*found, *contacted(rig)) if one.foreign]
    assert urls == [foreign("evil.test", serial).url for serial in range(100)]


def test_domains_that_name_pages_take_turns(rig):
    rig.push(*(foreign("evil.test", serial) for serial in range(100)))
    rig.push(*(foreign(f"good{n % 3}.test", n) for n in range(6)))
    found = [one.via for one in contacted(rig, 30)]
    assert sum("good" in via for via in found[16:]) == 6  # the oldest 16 are in memory


def test_domains_beyond_sixty_four_share_a_turn(rig):
    rig.push(*(foreign("first.test", serial) for serial in range(20)))
    rig.push(*(foreign(f"farm{n}.test", f"{n}/{m}") for m in range(2) for n in range(200)))
    found = contacted(rig, 16 + 65)[16:]
    assert len({one.via for one in found}) == 65
    assert len(contacted(rig)) == 420 - 81


def test_a_restart_keeps_foreign_pages_and_their_order(rig):
    entries = [foreign(f"a{n % 5}.test", n) for n in range(200)]
    rig.push(*entries)
    rig.fill(HOST, 50)
    before = contacted(rig, 10)
    rig.publish()
    rig.crash()
    after = contacted(rig)
    assert len({one.url for one in (*before, *after)}) == len(before) + len(after) == 250
    for via in {one.via for one in entries}:
        urls = [one.url for one in (*before, *after) if one.via == via]
        assert urls == [one.url for one in entries if one.via == via]


def test_robots_redirects_of_a_farm_wait_on_disk(rig):
    rig.fill(HOST, 20)
    rig.refill_all()
    for number in range(300):
        rig.back.push_front(
            Entry(
                f"http://{HOST}/{number}",
                HOST,
                kind="robots",
                via=f"http://f{number}.test",
                foreign=1,
            )
        )
    assert len(rig.back.table[HOST].items) < 50
    found = contacted(rig)
    assert len(found) == 320
    assert [one.foreign for one in found[:24]] == [0, 0, 0, 1] * 6

"""Traps are learned from pages with content already seen, seen by people, and undone."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from conftest import FakeClock
from host_rig import MemoryStore
from hypothesis import given
from hypothesis import strategies as st
from records_rig import PatientExecutor, damage_of, left_behind, opened, save

from webcrawl.frontier import Entry, Supply
from webcrawl.hosts.budgets.traps import ExceptionRules, LearnedTraps
from webcrawl.hosts.budgets.traps import learned as module
from webcrawl.hosts.budgets.traps.trap_files import Notes

HOUR = 3600.0


def exceptions_of(*lines):
    rules = ExceptionRules()
    for line in lines:
        rules.add(line)
    return SimpleNamespace(rules=rules, reloads=0, stats=dict)


def traps_of(tmp_path, clock, *, store=None, exceptions=None, **options):
    traps = LearnedTraps(
        store=MemoryStore() if store is None else store,
        exceptions=exceptions or exceptions_of(),
        notes=Notes(tmp_path / "traps.txt"),
        **{"min_duplicates": 20, "retry_secs": HOUR, "clock": clock} | options,
    )
    traps.open()
    return traps


@pytest.fixture
def clock():
    return FakeClock(1.8e9)


@pytest.fixture
def traps(tmp_path, clock):
    return traps_of(tmp_path, clock)


def holds(traps, url):
    return traps.holds(Entry(url, "a.test"))


def learn(traps, url, count=20, *, seen=True, start=0):
    """*count* documents of URLs like *url*, which has a place for a number."""
    for number in range(start, start + count):
        traps.learn(url.format(number), seen=seen)


CALENDAR = "http://a.test/cal/{}?sid=8f3a91c2"


def test_a_pattern_is_parked_when_enough_of_its_pages_were_seen_before(traps):
    learn(traps, CALENDAR, 19)
    assert not holds(traps, CALENDAR.format(2000))
    learn(traps, CALENDAR, 1)
    assert holds(traps, "http://a.test/cal/2000?sid=00aa11bb")
    assert traps.stats()["traps/parked"] == traps.stats()["traps/learned"] == 1


@pytest.mark.parametrize(
    "other",
    [
        "http://a.test/",
        "http://a.test/cal/",
        "http://a.test/cal/2000",
        "http://a.test/cal/2000?sid=1&view=day",
        "http://a.test/calendar/2000?sid=1",
        "http://a.test:81/cal/2000?sid=1",
        "https://a.test/cal/2000?sid=1",
        "http://www.a.test/cal/2000?sid=1",
        "http://b.test/cal/2000?sid=1",
    ],
)
def test_other_patterns_are_let_pass(traps, other):
    learn(traps, CALENDAR)
    assert not holds(traps, other)


def test_new_content_keeps_a_pattern_free(traps):
    for number in range(2000):
        traps.learn(CALENDAR.format(number), seen=number % 4 != 0)
    assert not holds(traps, CALENDAR.format(9))
    assert traps.stats()["traps/learned"] == 0


def test_new_content_alone_is_not_kept(traps, clock, tmp_path):
    store = MemoryStore()
    traps = traps_of(tmp_path, clock, store=store)
    learn(traps, CALENDAR, 500, seen=False)
    assert not store


def test_a_list_that_has_come_to_its_end_is_found_out(traps):
    """1,000 pages with something, then the same empty one for ever."""
    page = "http://a.test/list?page={}"
    traps.learn(page.format(0), seen=True)
    learn(traps, page, 1000, seen=False)
    for number in range(1000, 1300):
        if holds(traps, page.format(number)):
            break
        traps.learn(page.format(number), seen=True)
    assert 1020 <= number < 1299


def test_broad_patterns_take_four_times_the_evidence(traps):
    """Pages that do not exist, at the top of a site with articles there."""
    article = "http://a.test/an-article-like-number-{}"
    learn(traps, article, 79)
    assert not holds(traps, article.format(999))
    learn(traps, article, 1)
    assert holds(traps, article.format(999))
    assert not holds(traps, "http://a.test/about")


def test_the_first_page_is_never_parked(traps):
    learn(traps, "http://a.test/", 1000)
    assert not holds(traps, "http://a.test/")
    assert not holds(traps, "https://a.test/")


def test_a_space_that_grows_into_every_shape_is_parked_as_a_branch(traps, caplog):
    caplog.set_level("INFO")
    rng = random.Random(1)
    words = ["about", "news", "help", "shop", "team"]

    def url():
        return "http://a.test/index.php/" + "/".join(rng.choices(words, k=rng.randint(1, 8)))

    fetched = 0
    for _ in range(300):
        one = url()
        if not holds(traps, one):
            traps.learn(one, seen=True)
            fetched += 1
    assert fetched == 80
    assert holds(traps, url())
    assert "pages of http://a.test/index.php/{*} had content" in caplog.messages[-1]
    assert not holds(traps, "http://a.test/index.php")
    assert not holds(traps, "http://a.test/news/x")


def test_a_pattern_is_tried_again_and_parked_for_longer_each_time(traps, clock, tmp_path):
    learn(traps, CALENDAR)
    for period in (1, 2, 4):
        clock.advance(period * HOUR - 1)
        assert holds(traps, CALENDAR.format(1))
        clock.advance(1)
        assert not holds(traps, CALENDAR.format(1))
        learn(traps, CALENDAR, 2)
        assert not holds(traps, CALENDAR.format(1))
        learn(traps, CALENDAR, 1)
        assert holds(traps, CALENDAR.format(1))
    assert traps.stats()["traps/tried_again"] == 3
    lines = (tmp_path / "traps.txt").read_text().splitlines()
    assert [line.split("  # ")[1].split()[2] for line in lines] == ["parked:", "tried"] * 3 + [
        "parked:"
    ]


def test_pages_under_way_find_out_that_time_is_over_too(traps, clock):
    learn(traps, CALENDAR)
    learn(traps, CALENDAR, 50)
    clock.advance(HOUR)
    learn(traps, CALENDAR, 1)
    assert not holds(traps, CALENDAR.format(1))
    assert [*traps.stats().values()] == [0, 1, 1, 1]


def test_a_site_that_was_away_for_an_hour_comes_back_for_good(traps, clock):
    learn(traps, CALENDAR)
    clock.advance(HOUR)
    assert not holds(traps, CALENDAR.format(1))
    learn(traps, CALENDAR, 100, seen=False)
    # As if it had never been parked: three duplicates are no reason any more.
    learn(traps, CALENDAR, 19)
    assert not holds(traps, CALENDAR.format(1))


def test_a_person_frees_a_pattern_before_its_time(tmp_path, clock):
    exceptions = exceptions_of()
    traps = traps_of(tmp_path, clock, exceptions=exceptions)
    learn(traps, CALENDAR)
    assert holds(traps, CALENDAR.format(1))
    exceptions.rules.add("a.test/cal/{n}?sid")
    assert not holds(traps, CALENDAR.format(1))


@pytest.mark.parametrize(
    ("line", "free"),
    [
        ("a.test/cal/{n}?sid", True),
        ("a.test/cal/{n}?sid  # 2026-11-20 13:00:05 parked: 20 of 20", True),
        ("http://a.test/cal/{n}?sid", True),
        ("a.test/cal/{*}", True),
        ("http://a.test/cal/{*}", True),
        ("https://a.test/cal/{*}", False),
        ("a.test", True),
        ("A.test # all of it", True),
        ("test", True),
        ("\ufeffa.test", True),
        ("a.test/cal/{n}", False),
        ("a.test/", False),
        ("www.a.test", False),
        ("b.test", False),
        ("# a.test", False),
        ("", False),
    ],
)
def test_a_pattern_in_the_exceptions_file_is_no_trap(tmp_path, clock, line, free):
    traps = traps_of(tmp_path, clock)
    learn(traps, CALENDAR)
    store = traps._store
    traps = traps_of(tmp_path, clock, store=store, exceptions=exceptions_of(line))
    assert holds(traps, CALENDAR.format(1)) != free
    fresh = traps_of(tmp_path, clock, exceptions=exceptions_of(line))
    learn(fresh, CALENDAR, 1000)
    assert holds(fresh, CALENDAR.format(1)) != free


@pytest.mark.parametrize("line", ["a b.test", "a.test/x y", "x" * 400, "/cal", "a..b:c/x"])
def test_a_line_without_pattern_or_host_is_reported(line):
    rules = ExceptionRules()
    with pytest.raises(ValueError, match=r"is neither a pattern nor a host$"):
        rules.add(line)
    assert len(rules) == 0


def test_time_that_is_over_is_news_once(traps, clock):
    learn(traps, CALENDAR)
    assert not traps.needs_pass(Supply.NOW)
    assert holds(traps, CALENDAR.format(1))
    clock.advance(HOUR / 2)
    assert not traps.needs_pass(Supply.NOW)
    clock.advance(HOUR / 2)
    assert traps.needs_pass(Supply.NOW)
    assert not holds(traps, CALENDAR.format(1))
    assert not traps.needs_pass(Supply.NOW)


def test_time_that_is_over_is_news_even_if_a_new_link_finds_out_first(traps, clock):
    learn(traps, CALENDAR)
    clock.advance(HOUR)
    assert not holds(traps, CALENDAR.format(1))
    assert traps.stats()["traps/parked"] == 0
    assert traps.needs_pass(Supply.NOW)
    assert not traps.needs_pass(Supply.NOW)


def test_a_parked_pattern_that_gives_way_to_others_is_news(tmp_path, clock):
    traps = traps_of(tmp_path, clock, min_duplicates=1)
    learn(traps, CALENDAR, 1)
    assert holds(traps, CALENDAR.format(7))
    assert not traps.needs_pass(Supply.NOW)
    for number in range(module._PATTERNS_PER_HOST):
        learn(traps, f"http://a.test/{chr(97 + number % 26)}{number // 26 * 'z'}-{{}}?p", 1)
    assert not holds(traps, CALENDAR.format(7))
    assert traps.needs_pass(Supply.NOW)
    assert not traps.needs_pass(Supply.NOW)


def test_what_is_held_is_not_looked_at_for_each_pattern_if_that_is_much(traps, clock):
    learn(traps, CALENDAR)
    clock.advance(5)
    learn(traps, "http://b.test/x/{}")
    clock.advance(HOUR - 5)
    assert traps.needs_pass(Supply.NOW)
    for number in range(100_000):  # a look at so many takes 0.6 s
        assert holds(traps, f"http://b.test/x/{number % 9}")
    assert not traps.can_release_more
    clock.advance(9.9)
    assert not traps.needs_pass(Supply.NOW)
    assert traps.can_release_more  # if nothing else is left to fetch
    clock.advance(0.2)
    assert traps.needs_pass(Supply.NOW)
    assert not traps.can_release_more


def test_parked_patterns_are_noted_in_traps_txt(traps, tmp_path, caplog, clock):
    with caplog.at_level("INFO"):
        learn(traps, CALENDAR)
    assert (tmp_path / "traps.txt").read_text() == (
        "http://a.test/cal/{n}?sid  # 2027-01-15 08:00:00 parked: 20 of 20 pages had been seen, "
        "as http://a.test/cal/19?sid=8f3a91c2\n"
    )
    (told,) = caplog.messages
    assert told == (
        "Trap learned: 20 of the last 20 pages of http://a.test/cal/{n}?sid had content already "
        "seen, as http://a.test/cal/19?sid=8f3a91c2; its URLs wait from now on"
    )
    clock.advance(HOUR - 1)
    assert holds(traps, CALENDAR.format(1))


def test_a_list_that_cannot_be_written_is_complained_of_once(tmp_path, clock, caplog):
    traps = traps_of(tmp_path / "none", clock)
    learn(traps, CALENDAR)
    learn(traps, "http://b.test/{}/x")
    assert holds(traps, CALENDAR.format(1))
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1


def test_learning_can_be_switched_off(tmp_path, clock):
    store = MemoryStore()
    learn(traps_of(tmp_path, clock, store=store), CALENDAR)
    off = traps_of(tmp_path, clock, store=store, min_duplicates=0)
    assert not holds(off, CALENDAR.format(1))
    learn(off, "http://b.test/{}/x", 1000)
    assert not holds(off, "http://b.test/1/x")


def test_a_site_of_endless_patterns_makes_nothing_grow(tmp_path, clock):
    store = MemoryStore()
    traps = traps_of(tmp_path, clock, store=store, min_duplicates=3)
    rng = random.Random(2)
    for number in range(5000):
        word = "".join(rng.choices("abcdefgh", k=12))
        traps.learn(f"http://a.test/{word}/{'y' * 400}/{number}", seen=True)
        traps.learn(f"http://a.test/{word}/{word}", seen=True)
    known = traps._hosts["a.test"]
    assert len(known.patterns) <= 32
    assert len(store["a.test"]) < 32 * 400
    # Their own traps are learned all the same, and so are others' after so many parked ones.
    for word in ("one", "two", "three", *(f"w{'x' * n}" for n in range(40))):
        learn(traps, f"http://a.test/{word}/{{}}", 3)
        assert holds(traps, f"http://a.test/{word}/9")
    assert (
        traps.stats()["traps/parked"] == sum(one.parked_until > 0 for one in known.patterns) <= 25
    )


def test_hosts_in_memory_are_bounded_and_none_is_forgotten(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(module, "_HOSTS", 8)
    monkeypatch.setattr(module, "_UNKNOWN_HOSTS", 8)
    traps = traps_of(tmp_path, clock)
    for number in range(50):
        assert not holds(traps, f"http://none{number}.test/")
        assert len(traps._unknown) <= 8
        learn(traps, f"http://h{number}.test/x/{{}}")
    assert len(traps._hosts) <= 8
    assert all(holds(traps, f"http://h{number}.test/x/7") for number in range(50))
    assert traps.stats()["traps/parked"] == 50


def test_what_is_learned_survives_a_kill(tmp_path, clock):
    executor = PatientExecutor()
    records = opened(tmp_path / "hosts", executor)
    traps = traps_of(tmp_path, clock, store=records.traps)
    learn(traps, CALENDAR)
    learn(traps, "http://b.test/x/{}", 19)
    save(records, executor)
    again = opened(left_behind(tmp_path / "hosts", tmp_path / "copy"), executor)
    resumed = traps_of(tmp_path, clock, store=again.traps)
    assert resumed.stats()["traps/parked"] == resumed.stats()["traps/learned"] == 1
    assert holds(resumed, CALENDAR.format(5))
    assert not holds(resumed, "http://b.test/x/1")
    learn(resumed, "http://b.test/x/{}", 1)
    assert holds(resumed, "http://b.test/x/1")
    assert damage_of(again) == []
    for one in (again, records):
        one.close()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["http://a.test", "http://b.test"]),
            st.sampled_from(["/x/{}", "/y-{}", "/?p={}", "/z?{}", "/x/q/{}", "/"]),
            st.booleans(),
            st.sampled_from([0.0, 60.0, HOUR]),
        ),
        max_size=80,
    )
)
def test_counts_agree_with_what_is_stored_whatever_happens(tmp_path_factory, steps):
    clock = FakeClock(1e9)
    store = MemoryStore()
    directory = tmp_path_factory.getbasetemp()
    traps = traps_of(directory, clock, store=store, min_duplicates=2)
    for number, (host, path, seen, secs) in enumerate(steps):
        url = host + path.format(number)
        if not holds(traps, url):
            traps.learn(url, seen=seen)
        clock.advance(secs)
        resumed = traps_of(directory, clock, store=store, min_duplicates=2)
        assert resumed.stats()["traps/parked"] == traps.stats()["traps/parked"]
        for other in ("http://a.test/x/1", "http://b.test/?p=1", "http://a.test/"):
            assert holds(resumed, other) == holds(traps, other)
    parked = sum(one.parked_until > 0 for known in traps._hosts.values() for one in known.patterns)
    assert parked == traps.stats()["traps/parked"]

"""Tests that traps are learned from pages with known content, and released by a person."""

import random
from types import SimpleNamespace

import pytest
from text_tables import cases, each

from webcrawl.frontier import Entry, Supply
from webcrawl.hosts.budgets.traps import ExceptionRules, LearnedTraps


def exceptions_of(*lines):
    rules = ExceptionRules()
    for line in lines:
        rules.add(line)
    return SimpleNamespace(rules=rules, reloads=0, stats=dict)


def traps_of(*lines, min_duplicates=20):
    return LearnedTraps(exceptions=exceptions_of(*lines), min_duplicates=min_duplicates)


@pytest.fixture
def traps():
    return traps_of()


def holds(traps, url):
    return traps.hold(Entry(url, "a.test"))


def learn(traps, url, count=20, *, seen=True):
    """Learn from *count* documents of URLs like *url*, which has a place for a number."""
    for number in range(count):
        traps.learn(url.format(number), seen=seen)


CALENDAR = "http://a.test/cal/{}?sid=8f3a91c2"


def test_a_pattern_is_parked_when_enough_of_its_pages_were_seen_before(traps):
    learn(traps, CALENDAR, 19)
    assert not holds(traps, CALENDAR.format(2000))
    learn(traps, CALENDAR, 1)
    assert holds(traps, "http://a.test/cal/2000?sid=00aa11bb")
    assert traps.stats() == {"traps/learned": 1}


@cases(
    "other",
    """
        http://a.test/
        http://a.test/cal/
        http://a.test/cal/2000
        http://a.test/cal/2000?sid=1&view=day
        http://a.test/calendar/2000?sid=1
        http://a.test:81/cal/2000?sid=1
        https://a.test/cal/2000?sid=1
        http://www.a.test/cal/2000?sid=1
        http://b.test/cal/2000?sid=1
    """,
)
def test_other_patterns_are_let_pass(traps, other):
    learn(traps, CALENDAR)
    assert not holds(traps, other)


def test_new_content_keeps_a_pattern_free(traps):
    for number in range(2000):
        traps.learn(CALENDAR.format(number), seen=number % 4 != 0)
    assert not holds(traps, CALENDAR.format(9))
    assert traps.stats()["traps/learned"] == 0


def test_a_list_that_has_ended_is_detected(traps):
    """It has 1,000 pages with content, then the same empty page for ever."""
    page = "http://a.test/list?page={}"
    traps.learn(page.format(0), seen=True)
    learn(traps, page, 1000, seen=False)
    for number in range(1000, 1300):
        if holds(traps, page.format(number)):
            break
        traps.learn(page.format(number), seen=True)
    assert 1020 <= number < 1299


def test_broad_patterns_take_four_times_the_evidence(traps):
    """The pages do not exist, at the top of a site that has articles there."""
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


FREE = [
    "a.test/cal/{n}?sid",
    "a.test/cal/{n}?sid  # 2026-11-20 13:00:05 parked: 20 of 20",
    "http://a.test/cal/{n}?sid",
    "a.test/cal/{*}",
    "http://a.test/cal/{*}",
    "a.test",
    "A.test # all of it",
    "test",
    "\ufeffa.test",
]
OTHERS = [
    "https://a.test/cal/{*}",
    "a.test/cal/{n}",
    "a.test/",
    "www.a.test",
    "b.test",
    "# a.test",
    "",
]


@each("line", *FREE, *OTHERS)
def test_a_pattern_in_the_exceptions_file_is_not_a_trap(line):
    traps = traps_of(line)
    learn(traps, CALENDAR, 1000)
    assert holds(traps, CALENDAR.format(1)) == (line in OTHERS)
    assert (traps.stats()["traps/learned"] > 0) == (line in OTHERS)


def test_a_person_frees_a_pattern_that_is_parked():
    exceptions = exceptions_of()
    traps = LearnedTraps(exceptions=exceptions, min_duplicates=20)
    learn(traps, CALENDAR)
    assert not traps.advance(Supply.NOW)
    assert holds(traps, CALENDAR.format(1))
    exceptions.rules.add("a.test/cal/{n}?sid")
    exceptions.reloads += 1
    assert not holds(traps, CALENDAR.format(1))
    assert [traps.advance(Supply.NOW) for _ in range(2)] == [True, False]


@each("line", "a b.test", "a.test/x y", "x" * 400, "/cal", "a..b:c/x")
def test_a_line_without_pattern_or_host_is_reported(line):
    rules = ExceptionRules()
    with pytest.raises(ValueError, match=r"is neither a pattern nor a host$"):
        rules.add(line)
    assert len(rules) == 0


def test_a_parked_pattern_is_in_the_log_with_its_remedy(traps, caplog):
    with caplog.at_level("INFO"):
        learn(traps, CALENDAR, 50)
    (message,) = caplog.messages
    assert message == (
        "Trap learned: 20 of the last 20 pages of http://a.test/cal/{n}?sid had content already "
        "seen, such as http://a.test/cal/19?sid=8f3a91c2; more of its URLs now wait, unless "
        "TRAP_EXCEPTIONS_FILE has the pattern"
    )


def test_learning_can_be_switched_off():
    traps = traps_of(min_duplicates=0)
    learn(traps, CALENDAR, 1000)
    assert not holds(traps, CALENDAR.format(1))


def test_a_site_of_endless_patterns_keeps_room_for_its_traps_and_for_other_hosts():
    traps = traps_of(min_duplicates=3)
    learn(traps, CALENDAR)
    learn(traps, "http://b.test/x/{}")
    rng = random.Random(2)
    for number in range(500):
        word = "".join(rng.choices("abcdefgh", k=12))
        traps.learn(f"http://a.test/{word}/{'y' * 400}/{number}", seen=True)
        traps.learn(f"http://a.test/{word}/{word}", seen=True)
        assert holds(traps, CALENDAR.format(number)), "a pattern that is met stays"
    for word in ("one", "two", "three"):
        learn(traps, f"http://a.test/{word}/{{}}", 3)
        assert holds(traps, f"http://a.test/{word}/9")
    assert holds(traps, "http://b.test/x/9")


def test_patterns_and_hosts_in_memory_are_bounded(monkeypatch, traps):
    monkeypatch.setattr("webcrawl.hosts.budgets.traps.learned._HOSTS", 8)
    for number in range(50):
        learn(traps, f"http://h{number}.test/x/{{}}")
    for number in range(50):
        learn(traps, f"http://h49.test/{'x' * number}/{{}}")
    held = [holds(traps, f"http://h{number}.test/x/7") for number in range(49)]
    assert held == [False] * 42 + [True] * 7
    assert not holds(traps, "http://h49.test/x/7")

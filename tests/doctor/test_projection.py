"""Projection: what is said of simulated histories of samples."""

from text_tables import cases, each

from webcrawl.doctor.projection import Projection, Sample, Tail

NOW = 1_800_000_000.0


def sample(at, finished, known, **others):
    return Sample(NOW + at, finished, known, **{"min_secs": 0.0, "max_secs": 0.0, **others})


def fed(samples):
    projection = Projection()
    for one in samples:
        projection.add(one)
    return projection


def steady(secs, *, urls, rate, found=0.0):
    """A crawl of *secs* by now that finishes *rate* URLs a second, each with *found* new ones."""
    return [sample(at, at * rate, urls - at * rate * (1 - found)) for at in range(0, secs, 10)]


@each("secs", 100, 1000, 50_000)
def test_a_steady_crawl_ends_within_the_range(secs):
    projection = fed(steady(secs, urls=600_000, rate=10))
    earliest, latest = projection.range()
    assert earliest < NOW + 60_000 < latest
    assert latest - earliest < 0.3 * 60_000


def test_expected_new_urls_make_the_end_later():
    # Half a URL found with each: twice as long.
    earliest, latest = fed(steady(1000, urls=30_000, rate=10, found=0.5)).range()
    assert earliest < NOW + 6000 < latest < NOW + 9000


def test_a_frontier_that_grows_faster_has_no_end():
    projection = fed(steady(1000, urls=30_000, rate=10, found=1.2))
    assert projection.range().latest == 0
    assert projection.words() == "no end at this rate"
    assert projection.explained() == (
        "no end at this rate (10.0 URLs finished per second in the last 16 min; "
        "31,980 known URLs left; as many new URLs are found as are finished)"
    )


def test_parked_urls_that_do_not_count_are_said():
    samples = (one._replace(held=3475) for one in steady(1000, urls=30_000, rate=10))
    assert "; 20,100 known URLs left, not counting 3,475 parked ones; 9 of " in (
        fed(samples).explained()
    )


def test_the_queue_of_one_host_decides_when_others_are_done_sooner():
    times = range(0, 1000, 10)
    samples = [
        sample(at, 50 * at, 60_000 - 50 * at, min_secs=20_000 - at, max_secs=21_000 - at)
        for at in times
    ]
    projection = fed(samples)
    earliest, latest = projection.range()
    assert earliest < NOW + 20_000 < latest < NOW + 25_000


def test_a_queue_of_one_host_that_grows_has_no_end_and_is_named():
    """Although the crawl has fewer URLs left all the time."""
    projection = fed(
        one._replace(min_secs=secs, max_secs=secs, tail=Tail("big.test", 9, secs))
        for one in steady(1000, urls=20_000, rate=10)
        for secs in [3000 + 2 * (one.at - NOW)]
    )
    assert projection.range().latest == 0
    assert "; as many new URLs of big.test are found as are finished)" in projection.explained()


def test_the_slowest_host_is_named_if_it_takes_longer_than_all_urls_at_this_rate():
    slow = Tail("slow.test", 500, 20_000.0)
    samples = [one._replace(tail=slow) for one in steady(1000, urls=60_000, rate=10)]
    assert fed(samples).tail() == slow
    assert fed(one._replace(tail=slow._replace(secs=1000.0)) for one in samples).tail() is None
    assert fed(samples[:3]).tail() is None


def test_the_end_of_the_slowest_host_is_steady_and_within_the_range():
    """It grows and shrinks by turns, so the range moves; its own end does so only by new URLs."""
    projection = Projection()
    ends = []
    for one in steady(4000, urls=600_000, rate=100):
        at = one.at - NOW
        secs = 9000 - at + 100 * (at // 300 % 2)
        tail = Tail("slow.test", 500, secs)
        projection.add(one._replace(min_secs=secs / 3, max_secs=1.1 * secs, tail=tail))
        if found := projection.tail():
            end = one.at + found.secs
            earliest, latest = projection.range()
            assert earliest <= end <= latest
            ends.append(end - NOW)
    assert len(ends) > 300
    assert {*ends} == {9000, 9100}


@each("bursts", (1, 19), (0, 20), (8, 12))
def test_what_is_said_does_not_flap_when_the_rate_does(bursts):
    """Every five minutes the crawl is slow or fast, and finds 7 new URLs with 10 finished ones."""
    projection = Projection()
    finished = 0.0
    ends = []
    for at in range(0, 7200, 10):
        finished += 10 * bursts[at // 300 % 2]
        projection.add(sample(at, finished, 100_000 - 0.3 * finished))
        if at >= 1800:
            ends.append(projection.range())
    assert all(end.latest for end in ends)
    times = [end.latest for end in ends]
    assert max(times) - min(times) < 0.5 * (min(times) - NOW)


def test_budgets_bound_an_end_that_is_not_in_sight():
    samples = steady(1000, urls=3000, rate=10, found=1.2)
    bounded = fed(one._replace(bound=6000 - (one.at - NOW), max_secs=3000) for one in samples)
    assert NOW + 5900 < bounded.range().latest < NOW + 6500


def test_time_in_which_there_was_nothing_to_do_does_not_count():
    samples = steady(1000, urls=30_000, rate=10)
    projection = fed(samples)
    last = samples[-1]
    for minute in range(1, 600):
        projection.add(last._replace(at=last.at + 60 * minute), is_idle=True)
    expected = fed(samples).range()
    assert [at - 60 * 599 for at in projection.range()] == list(expected)
    projection.add(last._replace(at=last.at + 60 * 600, finished=last.finished + 1), is_idle=True)
    assert projection._samples[-1].finished == last.finished + 1


@each("others", {"again": 0.1}, {"ready": 0.5, "max_secs": 2000.0})
def test_failed_urls_and_waits_for_workers_make_the_end_later(others):
    samples = steady(1000, urls=30_000, rate=10)
    late = fed(one._replace(**others) for one in samples)
    assert late.range().latest > fed(samples).range().latest + 100


def test_there_is_no_projection_in_the_first_minute_or_without_progress():
    assert fed(steady(60, urls=1000, rate=1)).words() == ""
    assert fed(sample(at, 5, 100) for at in range(0, 1000, 10)).words() == ""
    assert fed([]).words() == ""


@cases(
    "urls words",
    """
        1010       | end in 0 to 1 min
        4000       | end in 5 to 6 min
        100_000    | end between 2027-01-15 10:
        30_000_000 | end between 2027-02-16 15:
    """,
)
def test_the_range_is_shown_in_minutes_or_dates(urls, words):
    told = fed(steady(100, urls=urls, rate=10)).words()
    assert told.startswith(words)
    assert len(told) <= 60


def test_a_crawl_that_revisits_shows_how_fresh_it_can_be():
    def visiting(known):
        return fed(sample(at, at * 10, 1000, due=known) for at in range(0, 1000, 10))

    assert visiting(863_000).words() == "all 864,000 URLs can be visited within 24.0 hours"
    assert visiting(3_455_000).words() == "all 3,456,000 URLs can be visited within 96.0 hours"
    assert visiting(11_999_000).words() == "50% of 12,000,000 URLs can be visited within 7 days"

"""The judge of politeness against naive ones that compare every contact with every other."""

import random

from hypothesis import given
from hypothesis import strategies as st

from webcrawl.jobs.audit.access_logs import sorted_by_start
from webcrawl.jobs.audit.auditor import Agreement, Auditor, RequiredDelays
from webcrawl.jobs.audit.log_line import MICRO, LoggedRequest


def contact(start, end, *, host="a", line=0):
    return LoggedRequest(
        start=start,
        end=end,
        host=host,
        address="127.0.0.1",
        url=f"http://{host}/{line}",
        log="log",
        line=line,
    )


def judged(contacts, *, least=0.0, hosts=None, keep=10**6, window=10**6, key=None):
    """*hosts*: Agreements."""
    auditor = Auditor(
        key=key or (lambda one: one.host),
        delays=RequiredDelays(least, lambda host: (hosts or {}).get(host, Agreement())),
        keep=keep,
    )
    for one in sorted_by_start(contacts, window=window):
        auditor.add(one)
    return auditor


def naive(contacts, *, due):
    """For each key: smallest gap, concurrency, and the lines of those that came too early."""
    found = {}
    for key in {one.host for one in contacts}:
        own = sorted((one for one in contacts if one.host == key), key=lambda c: (c.start, c.end))
        gaps, early, crowd = [], [], 0
        for place, after in enumerate(own):
            before = own[:place]
            crowd = max(crowd, 1 + sum(one.end > after.start for one in before))
            gaps += [after.start - max(one.end for one in before)] if before else []
            if any(after.start < one.end + due(one) for one in before):
                early.append(after.line)
        found[key] = (min(gaps, default=None), crowd, len(own), sorted(early))
    return found


def verdict(auditor):
    return {
        key: (
            record.smallest,
            record.concurrency,
            record.contacts,
            sorted(one.after.line for one in auditor.worst_violations() if one.key == key),
        )
        for key, record in auditor.keys.items()
    }


TIMES = st.integers(0, 60)
EXACT = st.lists(st.tuples(TIMES, st.integers(0, 12), st.sampled_from("aab")), max_size=25)


@given(
    *(EXACT, st.integers(0, 8), st.integers(0, 12), st.booleans()),
    st.randoms(use_true_random=False),
)
def test_contacts_are_judged_as_a_naive_judge_does(spans, least, own, allows, rng):
    contacts = [
        contact(start, start + took, host=host, line=line)
        for line, (start, took, host) in enumerate(spans)
    ]
    rng.shuffle(contacts)
    agreed = {"b": Agreement(delay=own / MICRO, allows=allows)}
    auditor = judged(contacts, least=least / MICRO, hosts=agreed)
    due = {"b": own if allows else max(least, own)}
    expected = naive(contacts, due=lambda one: due.get(one.host, least))
    assert verdict(auditor) == expected
    assert auditor.violations == sum(len(early) for *_, early in expected.values())
    assert auditor.contacts == len(contacts)
    assert auditor.unjudged == 0
    assert auditor.concurrency == max((crowd for _, crowd, *_ in expected.values()), default=0)
    assert auditor.smallest == min(
        (gap for gap, *_ in expected.values() if gap is not None), default=None
    )


def test_the_delay_of_the_contacted_host_is_due_for_its_whole_domain():
    spans = [
        contact(0, 1, host="slow.x"),
        contact(5, 6, host="fast.x"),
        contact(8, 9, host="fast.x"),
    ]
    agreed = {"slow.x": Agreement(delay=10 / MICRO)}
    auditor = judged(spans, least=1 / MICRO, hosts=agreed, key=lambda one: one.host[-1])
    assert auditor.keys["x"].due == 10
    assert [(one.before.host, one.gap, one.due) for one in auditor.worst_violations()] == [
        ("slow.x", 4, 10),
        ("slow.x", 7, 10),
    ]


def test_equally_bad_violations_are_listed_in_their_order():
    auditor = judged([contact(at, at, line=at) for at in range(0, 40, 2)], least=3 / MICRO, keep=9)
    assert [one.after.line for one in auditor.worst_violations()] == list(range(2, 20, 2))


def test_the_worst_violations_are_kept_and_all_are_counted():
    gaps = [5, 1, 3, 9, 2, 4, 1]
    contacts, at = [contact(0, 0)], 0
    for line, gap in enumerate(gaps, 1):
        at += gap
        contacts.append(contact(at, at, line=line))
    auditor = judged(contacts, least=6 / MICRO, keep=3)
    assert auditor.violations == 6
    assert [(one.gap, one.after.line) for one in auditor.worst_violations()] == [
        (1, 2),
        (1, 7),
        (2, 5),
    ]
    assert judged(contacts, least=6 / MICRO, keep=0).worst_violations() == []


@given(EXACT, st.integers(1, 30), st.integers(0, 6))
def test_a_small_window_never_accuses_and_says_what_it_could_not_judge(spans, window, least):
    """Whatever is not judged is counted; what is judged is judged right."""
    contacts = [contact(s, s + took, host=host, line=n) for n, (s, took, host) in enumerate(spans)]
    contacts.sort(key=lambda one: one.end)
    auditor = judged(contacts, least=least / MICRO, window=window)
    for found in auditor.worst_violations():
        assert found.after.start < found.before.end + least
        assert found.before.start <= found.after.end
    expected = naive(contacts, due=lambda one: least)
    polite = not any(early for *_, early in expected.values())
    if polite:
        assert auditor.violations == 0
    if auditor.violations == auditor.unjudged == 0:
        assert polite
    assert auditor.contacts == len(contacts)


def test_a_window_holds_no_more_than_it_may_and_sorts_within():
    rng = random.Random(1)
    late = [contact(start, start + 1) for start in range(1000)]
    for at in range(0, 1000, 10):
        part = late[at : at + 10]
        rng.shuffle(part)
        late[at : at + 10] = part
    taken = 0

    def counted():
        nonlocal taken
        for one in late:
            taken += 1
            yield one

    given_out = []
    for one in sorted_by_start(counted(), window=10):
        given_out.append(one.start)
        assert taken - len(given_out) <= 10
    assert given_out == list(range(1000))

"""Tests of visits: what was found, what is known from then on, and what is due."""

from host_rig import Records
from msgspec.structs import replace
from text_tables import cases

from webcrawl.frontier import Entry
from webcrawl.hosts.records.host_record import HostRecord
from webcrawl.revisit.history import History, history_of
from webcrawl.revisit.policies import Uniform
from webcrawl.revisit.visit import Answer, decide
from webcrawl.revisit.visits import Visits

DAY = 86_400.0
AT = 1e9
ENTRY = Entry("http://a.test/1", "a.test")
KNOWN = History(stored_at=5.0, content=7, etag='"old"', links=1, text=2, at=5, interval=100)
DENIED = replace(KNOWN, denied_at=int(AT - 2 * DAY))
COPY = History(stored_at=AT, content=8, etag='"new"', links=3, text=4)
NEW = {"etag": '"new"'}
DOCUMENT = Answer(200, "changed", False, NEW, COPY)
SAME = Answer(200, "unchanged", True, NEW, replace(COPY, content=7))
NOT_MODIFIED = Answer(304, "unchanged", True, {}, None)
ERROR = Answer(404, "", False, NEW, None)
# A page that nothing was done with, as its callback failed.
UNREAD = Answer(200, "", False, NEW, None)
FIRST = DOCUMENT._replace(change="")
PLAIN = Answer(200, "", False, {}, None)
MOVED, BROKEN = PLAIN._replace(status=301), PLAIN._replace(status=503)
NOTHING = History()
CHANGED, RENAMED = KNOWN.with_document(COPY), replace(KNOWN, etag='"new"')
HINTED = replace(KNOWN, hinted_at=5)

VISITS = Visits(policy=Uniform(DAY), first=DAY, shortest=60.0, longest=90 * DAY)


def visit_of(before, outcome, answer, *, records=None, visits=VISITS):
    records = records or Records()
    return decide(ENTRY, outcome, answer, before=before, at=AT, records=records, visits=visits)


@cases(
    "before outcome answer found after",
    """
        None   | http_200      | FIRST        | ""        | COPY
        None   | http_404      | ERROR        | gone      | NOTHING
        None   | http_301      | MOVED        | moved     | NOTHING
        None   | timeout       | None         | failed    | NOTHING
        KNOWN  | http_200      | DOCUMENT     | changed   | CHANGED
        KNOWN  | http_200      | SAME         | unchanged | RENAMED
        KNOWN  | http_304      | NOT_MODIFIED | unchanged | KNOWN
        KNOWN  | http_200      | UNREAD       | failed    | KNOWN
        KNOWN  | http_404      | ERROR        | gone      | KNOWN
        KNOWN  | http_503      | BROKEN       | failed    | KNOWN
        KNOWN  | soft_error    | PLAIN        | failed    | KNOWN
        KNOWN  | robots_denied | None         | failed    | KNOWN
        DENIED | robots_denied | None         | gone      | DENIED
    """,
    globals(),
)
def test_a_visit_says_what_was_found_and_what_is_known(before, outcome, answer, found, after):
    visit = visit_of(before, outcome, answer)
    assert (visit.before, visit.change, visit.after) == (before, found, after)


@cases(
    "before outcome answer secs",
    """
        None   | http_200      | FIRST    | DAY
        # a quarter of its interval is less than the shortest
        KNOWN  | timeout       | None     | 60.0
        KNOWN  | robots_denied | None     | DAY
        KNOWN  | http_404      | ERROR    | 200.0
        DENIED | robots_denied | None     | 200.0
        KNOWN  | excluded      | None     | None
        HINTED | http_200      | DOCUMENT | None
    """,
    globals(),
)
def test_the_next_visit_is_due_after_an_interval(before, outcome, answer, secs):
    due = visit_of(before, outcome, answer).due
    assert (due and due[1] - AT) == secs


def test_useless_validators_are_left_out_of_the_next_entry():
    records = Records()
    for _ in range(8):
        visit = visit_of(KNOWN, "http_200", SAME, records=records)
    assert visit.after.etag == '"new"'
    assert history_of(visit.due[0]).etag == ""


@cases(
    "etag text kept",
    """
        '"old"' | 0 | ""
        W/"old" | 2 | ""
        # the text may be as it was
        W/"old" | 0 | W/"old"
    """,
)
def test_validators_that_stay_while_the_document_changes_are_dropped(etag, text, kept):
    records = Records()
    records.put(HostRecord(ENTRY.host, validators=[1, 0]))  # as of an older job
    known = replace(KNOWN, etag=etag, text=text)
    answer = DOCUMENT._replace(validators={"etag": etag}, copy=replace(COPY, etag=etag))
    visit = visit_of(known, "http_200", answer, records=records)
    assert history_of(visit.due[0]).etag == kept


def test_without_revisits_no_visit_is_due():
    visit = visit_of(KNOWN, "http_200", DOCUMENT, visits=None)
    assert visit.due is None
    assert visit.change == "changed"

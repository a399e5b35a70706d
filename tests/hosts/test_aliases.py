from itertools import count, islice

import pytest
from scrapy.settings import Settings
from text_tables import each
from warc_checks import page

from webcrawl.frontier import Entry, Supply
from webcrawl.hosts.aliases import RETRIED, Aliases, _path_fingerprint, other_names
from webcrawl.hosts.host_rules import HostRules
from webcrawl.seen.fingerprint import document_fingerprint
from webcrawl.settings import HOSTS_POLICY_FILE

ONE, TWO = "one.test", "two.test"
ALIKE = ("/a", "/b", "/c")


@pytest.fixture
def table():
    return Table()


class Table:
    """A table of aliases that learns from pages, and what it submits."""

    def __init__(self):
        settings = Settings({"HOSTS_POLICY_FILE": HOSTS_POLICY_FILE, "BLOCKLISTS": {}})
        self.rules = HostRules.from_settings(settings)
        self.submitted = []
        times = count(1000.0, 60.0)
        self.aliases = Aliases(
            learns=True,
            rules=self.rules,
            submit=lambda url, _: self.submitted.append(url),
            clock=lambda: next(times),
        )
        self.aliases.resize(100)

    def show(self, host, path, body=None, *, kind="a", rank=0, **more):
        """Note the page of *host* at *path*, which has a text of its own unless *body* is given."""
        url = f"http://{host}{path}"
        body = b"text of %b, from //%b/" % (path.encode(), host.encode()) if body is None else body
        seen = document_fingerprint(body) if more.get("status", 200) == 200 else 0
        entry = Entry(url=url, host=host, kind=kind, rank=rank)
        self.aliases.note_page(page(url=url, body=body, **more), entry, seen)

    def show_both(self, samples=3, **more):
        """Show pages that are alike, and *samples* that are compared."""
        for path in (*ALIKE, *islice(compared_paths(), samples)):
            self.show(ONE, path, **more)
            self.show(TWO, path, **more)

    def hold(self, path):
        """Whether the new URL of TWO is held."""
        entry = Entry(url=f"http://{TWO}{path}", host=TWO)
        is_held = self.aliases.hold(entry)
        if not is_held:
            self.aliases.let_in(entry)
        return is_held

    @property
    def state(self):
        return {
            name: (one.leading, one.state, one.ended_by)
            for name, one in self.aliases.aliases.items()
        }


def compared_paths(one_in=8):
    """The paths that are fetched from both names if one in so many is."""
    paths = (f"/compared/{number}" for number in count())
    return (path for path in paths if _path_fingerprint(f"http://{ONE}{path}", ONE) % one_in == 0)


def test_the_name_with_more_pages_leads(table):
    table.show(TWO, "/more")
    table.show_both()
    assert table.state == {ONE: (TWO, "alias", "")}
    assert table.aliases.is_leading(f"http://{TWO}/")
    assert not table.aliases.is_leading(f"http://{ONE}/")


def test_on_trial_only_compared_paths_are_fetched_and_moved(table):
    assert not table.hold("/new")
    table.show_both(2)
    assert table.state == {TWO: (ONE, "trial", "")}
    table.aliases.advance(Supply.NOW)
    table.submitted.clear()
    third = [*islice(compared_paths(), 3)][-1]
    assert table.hold("/new")
    assert not table.hold(third)
    table.aliases.advance(Supply.NOW)
    assert table.submitted == [f"http://{ONE}{third}"]

    # What the leading name has is asked of the other one, which may have no link to it.
    table.show(ONE, third)
    table.aliases.advance(Supply.NOW)
    assert table.submitted[1:] == [f"http://{TWO}{third}"]
    table.show(TWO, third)
    assert table.state == {TWO: (ONE, "alias", "")}
    assert table.aliases.advance(Supply.NOW)  # what is parked is checked again, once
    assert not table.aliases.advance(Supply.NOW)
    assert table.hold("/new")
    assert table.aliases.can_release_more
    table.aliases.advance(Supply.NOW)
    assert table.submitted[2:] == [f"http://{ONE}/new"]
    assert not table.aliases.can_release_more


@each("way", "time", "end of the crawl")
def test_a_trial_without_result_ends(table, way):
    table.show_both(2)
    assert table.hold("/new")
    if way == "time":
        while table.state:
            table.aliases.advance(Supply.NOW)
    else:
        assert table.aliases.can_release_more
        table.aliases.release_more()
    assert not table.hold("/new")


@each("body status", (b"the same everywhere", 200), (None, 404))
def test_error_pages_and_pages_of_one_document_say_nothing(table, body, status):
    table.show_both(20, body=body, status=status)
    assert not table.state


def test_a_difference_says_that_they_are_two_sites(table):
    table.show_both(2)
    third, fourth = islice(compared_paths(), 2, 4)
    table.show(ONE, third)
    table.show(TWO, third, b"another text")
    assert not table.state
    table.show(ONE, fourth)
    table.show(TWO, fourth)
    assert not table.state


def test_a_time_a_token_and_a_counter_do_not_count(table):
    for number, path in enumerate([*ALIKE, *islice(compared_paths(), 3)]):
        words = b" ".join(b"%d-%s" % (word, path.encode()) for word in range(40))
        for host in (ONE, TWO):
            volatile = f"<p>07:00:{number}7 {host[:2]}{number}f <b>{len(host) * number} {host[0]}"
            table.show(host, path, b"<title>%d</title>" % number + words + volatile.encode())
    assert table.state == {TWO: (ONE, "alias", "")}


def test_pages_whose_headers_allow_less_differ(table):
    for path in (*ALIKE, *islice(compared_paths(), 9)):
        table.show(ONE, path)
        table.show(TWO, path, headers=[(b"X-Robots-Tag", b"noindex")])
    assert not table.state


@each("first", ONE, TWO)
@each("status", 200, 404)
def test_a_checked_page_that_differs_ends_the_alias(table, first, status):
    table.show_both()
    path = next(compared_paths(64))
    assert not table.hold(path)  # and it is fetched from the other name as well
    table.aliases.advance(Supply.NOW)
    assert f"http://{ONE}{path}" in table.submitted
    table.show(first, path)
    assert table.hold("/new")
    table.show({ONE: TWO, TWO: ONE}[first], path, b"another", status=status)
    assert table.state == {TWO: (ONE, "ended", "difference")}
    assert table.aliases.advance(Supply.NOW)  # what is parked is checked again, once
    assert not table.aliases.advance(Supply.NOW)
    assert not table.hold("/new")
    table.show_both()  # it is not found again
    assert table.state[TWO][1] == "ended"


def test_a_page_that_the_leading_name_does_not_have_is_tried_and_ends_the_alias(table):
    table.show_both()
    assert table.hold("/own")
    table.show(ONE, "/own", kind="alias", status=404)
    (retried,) = table.aliases.retried(Entry(url=f"http://{ONE}/own", host=ONE, kind="alias"))
    assert (retried.url, retried.kind) == (f"http://{TWO}/own", RETRIED)
    assert not table.aliases.hold(retried)
    table.show(TWO, "/own", kind=RETRIED, status=404)
    assert table.state[TWO][1] == "alias"
    table.show(TWO, "/own", kind=RETRIED)
    assert table.state[TWO][1:] == ("ended", "difference")


@each("name leads", (ONE, TWO), (TWO, ONE))
@each("way", "redirect", "canonical", "rank")
def test_which_name_leads(table, name, leads, way):
    for path in (*ALIKE, *islice(compared_paths(), 3)):
        for host in (ONE, TWO):
            text = f"<link rel='canonical' href='http://{leads}{path}'>text of {path}"
            body = text.encode() if way == "canonical" else None
            if way == "redirect" and host == name:
                table.show(host, "/old", status=301, redirect_target=f"http://{leads}/")
            table.show(host, path, body, rank=int(way == "rank" and host == leads))
    assert table.state == {name: (leads, "alias", "")}


def test_a_name_that_only_calls_itself_canonical_does_not_lead(table):
    for path in (*ALIKE, *islice(compared_paths(), 3)):
        table.show(ONE, path)
        own = f"<link rel=canonical href='http://{TWO}/'>text of {path}, from //{TWO}/"
        table.show(TWO, path, own.encode())
    assert TWO in table.state or not table.state


def test_an_exclusion_ends_it_and_keeps_what_is_parked(table):
    table.show_both()
    assert other_names([table.aliases.aliases], lambda host: host == ONE) == [TWO]
    table.rules.command("exclude", ONE, source="a test")
    assert table.aliases.advance(Supply.NOW)
    assert table.state == {TWO: (ONE, "held", "exclusion")}
    assert table.hold("/new")
    table.aliases.advance(Supply.NOW)
    assert f"http://{ONE}/new" not in table.submitted
    table.rules.command("free", TWO, source="a test", reason="alias_of")
    assert table.aliases.advance(Supply.NOW)
    assert not table.hold("/new")


def test_the_table_outlives_the_process_and_a_damaged_one_is_found_again(table):
    table.show_both(2)
    second = Table()
    second.aliases.open(table.aliases.snapshot())
    assert second.hold("/new")
    second.show_both()
    assert second.state == {TWO: (ONE, "alias", "")}
    third = Table()
    third.aliases.open(second.aliases.snapshot())
    assert third.hold("/new")
    Table().aliases.open(second.aliases.snapshot()[:-3])


def test_the_hosts_used_least_recently_are_forgotten(table):
    table.aliases.resize(2)
    table.show(ONE, "/a")
    table.show(TWO, "/a")
    table.show("three.test", "/")
    for path in ALIKE[1:]:
        table.show(ONE, path)
        table.show(TWO, path)
    assert len(table.aliases._hosts) == 2

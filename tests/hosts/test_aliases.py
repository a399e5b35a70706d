from itertools import count

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

    def show_both(self, pages=8, **more):
        for number in range(pages):
            self.show(ONE, f"/{number}", **more)
            self.show(TWO, f"/{number}", **more)

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


def checked_path(host):
    """A path that is fetched from both names."""
    paths = (f"/checked/{number}" for number in count())
    return next(
        path for path in paths if _path_fingerprint(f"http://{host}{path}", host) % 100 == 0
    )


def test_the_name_with_more_pages_leads(table):
    table.show_both(7)
    table.show(TWO, "/8")
    table.show(TWO, "/7")
    table.show(ONE, "/7")
    assert table.state == {ONE: (TWO, "alias", "")}
    assert table.aliases.is_leading(f"http://{TWO}/")
    assert not table.aliases.is_leading(f"http://{ONE}/")


def test_urls_are_held_and_moved_to_the_older_name(table):
    table.show_both(7)
    assert not table.hold("/new")
    table.show(ONE, "/7")
    table.show(TWO, "/7")
    assert table.state == {TWO: (ONE, "alias", "")}
    assert table.hold("/new")
    assert table.aliases.can_release_more
    assert not table.aliases.advance(Supply.NOW)
    assert table.submitted == [f"http://{ONE}/new"]
    assert not table.aliases.can_release_more


@each("body status", (b"the same everywhere", 200), (None, 404))
def test_error_pages_and_pages_of_one_document_say_nothing(table, body, status):
    table.show_both(20, body=body, status=status)
    assert not table.state


def test_a_difference_among_the_first_pages_says_that_they_are_two_sites(table):
    table.show(ONE, "/")
    table.show(TWO, "/", b"another text")
    table.show_both(30)
    assert not table.state


def test_pages_whose_headers_allow_less_differ(table):
    for number in range(20):
        table.show(ONE, f"/{number}")
        table.show(TWO, f"/{number}", headers=[(b"X-Robots-Tag", b"noindex")])
    assert not table.state


@each("first", ONE, TWO)
@each("status", 200, 404)
def test_a_checked_page_that_differs_ends_the_alias(table, first, status):
    table.show_both()
    path = checked_path(ONE)
    assert not table.hold(path)  # and it is fetched from the other name as well
    table.aliases.advance(Supply.NOW)
    assert table.submitted == [f"http://{ONE}{path}"]
    table.show(first, path)
    assert table.hold("/new")
    table.show({ONE: TWO, TWO: ONE}[first], path, b"another", status=status)
    assert table.state == {TWO: (ONE, "ended", "difference")}
    assert table.aliases.advance(Supply.NOW)  # what is parked is checked again, once
    assert not table.aliases.advance(Supply.NOW)
    assert not table.hold("/new")
    table.show_both(9)  # it is not found again
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
    for number in range(8):
        for host in (ONE, TWO):
            text = b"<link rel='canonical' href='http://%b/%d'>" % (leads.encode(), number)
            body = text if way == "canonical" else None
            table.show(host, f"/{number}", body, rank=int(way == "rank" and host == leads))
            if way == "redirect" and host == name:
                table.show(host, "/old", status=301, redirect_target=f"http://{leads}/")
    assert table.state == {name: (leads, "alias", "")}


def test_an_exclusion_ends_it_and_keeps_what_is_parked(table):
    table.show_both()
    assert other_names([table.aliases.aliases], lambda host: host == ONE) == [TWO]
    table.rules.command("exclude", ONE, source="a test")
    assert table.aliases.advance(Supply.NOW)
    assert table.state == {TWO: (ONE, "held", "exclusion")}
    assert table.hold("/new")
    table.aliases.advance(Supply.NOW)
    assert not table.submitted
    table.rules.command("free", TWO, source="a test", reason="alias_of")
    assert table.aliases.advance(Supply.NOW)
    assert not table.hold("/new")


def test_the_table_outlives_the_process_and_a_damaged_one_is_found_again(table):
    table.show_both(4)
    second = Table()
    second.aliases.open(table.aliases.snapshot())
    for number in range(4, 8):
        second.show(ONE, f"/{number}")
        second.show(TWO, f"/{number}")
    assert second.state
    third = Table()
    third.aliases.open(second.aliases.snapshot())
    assert third.hold("/new")
    Table().aliases.open(second.aliases.snapshot()[:-3])


def test_the_hosts_used_least_recently_are_forgotten(table):
    table.aliases.resize(2)
    table.show_both(4)
    table.show("three.test", "/")
    for number in range(4, 8):
        table.show(ONE, f"/{number}")
        table.show(TWO, f"/{number}")
    assert len(table.aliases._hosts) == 2
    assert not table.state

"""What hubs are asked when, and which of them are believed."""

from urllib.parse import parse_qsl

import pytest
from text_tables import each
from websub_hub import signature

from webcrawl.configuration.decoding import UndecodableError
from webcrawl.items import Page
from webcrawl.pipelines.hub_table import HubTable

HOUR = 3600.0
DAY = 24 * HOUR


class Rig:
    """A table with a clock; *excluded* are URLs, *counts* what was counted."""

    def __init__(self, path):
        self.at = 1e9
        self.excluded = set()
        self.counts = []
        self.path = path / "websub.jsonl"
        self.open()

    def open(self):
        self.table = HubTable(
            self.path,
            url="https://crawler.test/news",
            is_excluded=self.excluded.__contains__,
            count=self.counts.append,
            clock=lambda: self.at,
        )
        self.table.open()

    def see(self, url, hub):
        """The crawl fetches the feed *url*, which names *hub*."""
        link = f'<link rel="hub" href="{hub}"/>' if hub else ""
        body = f'<feed>{link}<link rel="self" href="{url}"/></feed>'.encode()
        page = Page(
            url=url, status=200, headers=[], body=body, wire_body=body, fetched_at=self.at, depth=3
        )
        self.table.note_page(page)

    def requests(self):
        """The forms that are due, by URL of the feed."""
        due = [*self.table.begin_requests()]
        return {one.url: dict(parse_qsl(self.table.form_of(one.name).decode())) for one in due}

    def name(self):
        """That of the one subscription that was asked for."""
        ((_, form),) = self.requests().items()
        return form["hub.callback"].removeprefix("https://crawler.test/news/")

    def confirm(self, name, lease, topic="http://a.test/feed"):
        question = {"hub.mode": "subscribe", "hub.topic": topic, "hub.lease_seconds": f"{lease}"}
        return self.table.is_confirmed(name, question)


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


def test_a_form_has_what_the_standard_wants_and_is_sent_once(rig):
    rig.see("http://a.test/feed", "http://hub.test/")
    form = rig.requests()["http://a.test/feed"]
    assert len(form.pop("hub.callback")) == len("https://crawler.test/news/") + 32
    assert len(form.pop("hub.secret")) == 64
    assert form == {
        "hub.mode": "subscribe", "hub.topic": "http://a.test/feed", "hub.lease_seconds": "864000"
    }  # fmt: skip
    rig.see("http://a.test/feed", "http://hub.test/")
    assert rig.requests() == {}


@each("lease renewed_after", (10 * DAY, 8 * DAY), (10, 300), (400 * DAY, 24 * DAY))
def test_a_lease_is_renewed_before_it_ends(rig, lease, renewed_after):
    rig.see("http://a.test/feed", "http://hub.test/")
    name = rig.name()
    assert rig.confirm(name, int(lease))
    rig.at += renewed_after - 1
    assert rig.requests() == {}
    rig.at += 1
    assert rig.name() == name
    assert rig.table.is_active(name) == (lease > renewed_after)


def test_a_silent_hub_is_asked_four_times_and_then_forgotten(rig):
    rig.see("http://a.test/feed", "http://hub.test/")
    waits = []
    for _ in range(4):
        assert len(rig.requests()) == 1
        began = rig.at
        while not [one for one in rig.table._by_name.values() if one.due_at <= rig.at]:
            rig.at += HOUR
        waits.append((rig.at - began) / HOUR)
    assert waits == [1, 8, 64, 512]
    assert rig.requests() == {}
    rig.see("http://a.test/feed", "http://hub.test/")
    assert len(rig.requests()) == 1


def test_a_renewal_without_an_answer_leaves_the_lease(rig):
    rig.see("http://a.test/feed", "http://hub.test/")
    name = rig.name()
    rig.confirm(name, 864_000)
    rig.at += 8 * DAY
    assert rig.name() == name
    rig.at += 1.9 * DAY
    assert rig.table.is_active(name)
    rig.at += 0.2 * DAY
    assert not rig.table.is_active(name)


def test_there_is_room_for_ten_feeds_of_a_host_and_a_hundred_hubs(rig):
    for number in range(12):
        rig.see(f"http://a.test/feed{number}", "http://hub.test/")
    assert len(rig.requests()) == 10
    for number in range(120):
        rig.see(f"http://b{number}.test/", f"http://hub{number}.test/")
    assert len(rig.requests()) == 99
    for number in range(1200):
        rig.see(f"http://c{number}.test/", "http://hub.test/")
    assert len(rig.requests()) == 1000 - 109


def test_what_is_excluded_ends_at_once(rig):
    rig.see("http://a.test/feed", "http://hub.test/")
    name = rig.name()
    rig.confirm(name, 864_000)
    rig.excluded.add("http://a.test/feed")
    assert not rig.table.is_active(name)
    rig.at += 8 * DAY
    assert rig.requests() == {}
    assert rig.table.form_of(name) == b""


def test_a_denied_subscription_is_left_alone_for_a_month(rig):
    rig.see("http://a.test/feed", "http://hub.test/")
    name = rig.name()
    assert rig.table.is_confirmed(name, {"hub.mode": "denied", "hub.topic": "http://a.test/feed"})
    rig.see("http://a.test/feed", "http://hub.test/")
    rig.at += 29 * DAY
    assert not rig.table.is_active(name)
    assert rig.requests() == {}
    rig.at += DAY
    assert rig.requests() == {}
    assert rig.table.form_of(name) == b""


def test_all_of_it_is_in_the_file(rig):
    rig.see("http://a.test/feed", "http://hub.test/")
    name = rig.name()
    rig.confirm(name, 864_000)
    rig.table.save()
    assert rig.path.stat().st_mode & 0o077 == 0
    form = rig.table.form_of(name)
    rig.open()
    assert rig.table.form_of(name) == form
    assert rig.table.is_active(name)
    rig.path.write_bytes(rig.path.read_bytes()[:-9])
    with pytest.raises(UndecodableError):
        rig.open()


def test_a_pushed_feed_tells_when_the_last_one_was_pushed(rig):
    rig.see("http://a.test/feed", "http://hub.test/")
    form = rig.requests()["http://a.test/feed"]
    name = form["hub.callback"].rpartition("/")[2]
    rig.confirm(name, 864_000)
    times = []
    for _ in range(2):
        rig.at += HOUR
        signed = signature(form["hub.secret"], b"<feed/>").upper().replace("SHA", "sha")
        page = rig.table.pushed_feed(name, b"<feed/>", signed)
        times.append((page.stored_at, page.fetched_at, page.depth, page.url))
    assert times == [
        (1e9, 1e9 + HOUR, 3, "http://a.test/feed"),
        (1e9 + HOUR, 1e9 + 2 * HOUR, 3, "http://a.test/feed"),
    ]

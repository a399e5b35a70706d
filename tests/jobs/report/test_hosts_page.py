"""The table of all hosts: its orders, filters and pages, and what each column says."""

from contextlib import closing

import msgspec
from lxml import html
from reading_report import line, open_crawl, write_log
from stored_job import in_use
from text_tables import each

from webcrawl.crawl.job.control_journal import Change, Journal
from webcrawl.doctor.diagnosis import Cause, Diagnosis
from webcrawl.doctor.projection import Tail
from webcrawl.doctor.record import Line, Record
from webcrawl.jobs.inspect.examination import facts_of
from webcrawl.jobs.report.hosts_page import FILTERS, HOSTS_SHOWN, ORDERS, hosts_page
from webcrawl.jobs.report.page import render
from webcrawl.jobs.report.totals_file import TotalsFile
from webcrawl.states import State

T0 = 1_800_000_000.0
LINES = [
    *(line(f"http://slow.test/{n}", "http_200", T0, sent=T0 + 60 * n, took=8.0) for n in range(3)),
    *(line(f"http://fast.test/{n}", "http_200", T0, sent=T0 + n, took=1.0) for n in range(5)),
    *(line(f"http://down.test/{at}", "connect_refused", T0 + at) for at in (1, 2)),
    line("http://down.test/", "dns_failed", T0 + 9),
    line("http://down.test/late", "host_failing", T0 + 10),
    line("http://down.test/x", "robots_denied", T0),
]
QUEUES = [
    ("slow.test", "ready", 0.0, 10),
    ("fast.test", "paused", 4e9, 50),
    ("new.test", "paused", 1e9, 7),  # until a time that is over
]
PARKED = [("fast.test", "depth", 3), ("full.test", "host_budget", 8), ("full.test", "depth", 1)]


def shown(**question):
    """The names of the hosts, in their order, and the rows by name."""
    with closing(TotalsFile()) as file:
        file.add(LINES)
        file.replace_queues(QUEUES)
        file.replace_parked(PARKED)
        page = hosts_page(file, **question)
    rows = {row[0]: row[1:] for row in page.table.rows}
    assert page.total == len(rows)
    return " ".join(rows), rows


@each(
    "order state words hosts",
    ("time left", "", "", "slow.test fast.test new.test down.test full.test"),
    ("waiting", "", "", "fast.test slow.test new.test down.test full.test"),
    ("failures", "all", "", "down.test fast.test full.test new.test slow.test"),
    ("share of time", "waiting", "", "slow.test fast.test new.test"),
    ("pages", "ready", "", "slow.test"),
    ("name", "paused", "", "fast.test new.test"),
    ("name", "parked", "", "fast.test full.test"),
    ("name", "failing", "", "down.test"),
    ("name", "contacted", "", "fast.test slow.test"),
    ("name", "all", "SLOW", "slow.test"),
    ("no order", "no state", "%", ""),
)
def test_hosts_are_sorted_and_filtered(order, state, words, hosts):
    assert shown(order=order, state=state, words=words)[0] == hosts


def test_a_row_says_how_long_the_host_needs_and_why_it_fails():
    rows = shown()[1]
    assert rows["slow.test"] == ("ready", 10, "", "10 min", "60 s", "82.8%", 3, 0, 0, "")
    why = "2 connect_refused, 1 dns_failed, 1 host_failing; last 2027-01-15 08:00:09: "
    why += "The name servers returned no usable answer."
    assert rows["down.test"] == ("nothing waits", 0, "", "", "", "0%", 0, 1, 4, why)
    assert rows["new.test"][:4] == ("paused", 7, "", "")
    assert rows["fast.test"][2] == "3: nearer pages, which go first"
    parked = "1: nearer pages, which go first; 8: their host's limit"
    assert rows["full.test"][:3] == ("all URLs parked", 0, parked)


def test_an_excluded_host_is_shown_as_excluded_whatever_its_queue(tmp_path):
    with closing(TotalsFile()) as file:
        file.add(LINES)
        file.replace_queues(QUEUES)
        file.replace_parked(PARKED)
        file.set_exclusions({"slow.test", "full.test", "down.test"}.__contains__)
        rows = {row[0]: row[1:] for row in hosts_page(file).table.rows}
        states = {host: row[0] for host, row in rows.items()}
        assert {host for host, state in states.items() if state == "excluded"} == {
            "slow.test", "full.test", "down.test"
        }  # fmt: skip
        assert rows["slow.test"][3] == ""  # no time left: nothing will be fetched
        assert len(hosts_page(file, state="excluded").table.rows) == 3
        assert hosts_page(file, state="ready").table.rows == []


def test_hosts_that_a_command_or_a_file_excludes_are_excluded(tmp_path):
    write_log(tmp_path / "job", LINES)
    journal = Journal(tmp_path / "job")
    key = {"state_key": "exclude slow.test"}
    journal.append(Change("exclude", {"host": "slow.test"}, at=T0, n=1, **key))
    (tmp_path / "rules.txt").write_text("down.test\n")
    with open_crawl(tmp_path / "job", EXCLUSION_FILE=str(tmp_path / "rules.txt")) as crawl:
        rows = hosts_page(crawl.file, state="excluded").table.rows
    assert {row[0] for row in rows} == {"down.test", "slow.test"}


def test_the_host_that_holds_up_the_crawl_has_the_same_pace_as_on_the_monitor(tmp_path):
    """Its requests in the log include a pause of the whole crawl."""
    write_log(tmp_path, LINES)
    tail = Tail("slow.test", 10, 200.0)
    limit = Diagnosis(Cause.POLITENESS, 0.0, "")
    record = Record(state=State("running"), diagnosis=limit, tail=tail)
    data = msgspec.json.encode(Line(T0, record))
    (tmp_path / "logs/stats.jsonl").write_bytes(data + b"\n")
    with in_use(tmp_path), open_crawl(tmp_path) as crawl:
        crawl.file.replace_queues(QUEUES)
        rows = {row[0]: row[1:] for row in hosts_page(crawl.file).table.rows}
        facts = dict(facts_of(crawl.processes[0], T0))
    assert rows["slow.test"][3:5] == ("200 s", "20 s")
    assert facts["held up by"].endswith(", in 240 s, at 20 s per URL")


def test_the_page_says_of_which_time_the_queues_are():
    with closing(TotalsFile()) as file:
        file.replace_queues(QUEUES, at="2026-11-30T19:41:02Z")
        assert "as of the last checkpoint, 2026-11-30 19:41:02 UTC. " in hosts_page(file).lead


def test_the_page_says_once_what_releases_parked_urls():
    with closing(TotalsFile()) as file:
        file.replace_parked(PARKED)
        lead = hosts_page(file).lead
    assert lead.count("4 URLs parked because of nearer pages, which go first; fetched after") == 1
    assert lead.endswith("to fetch them, raise BUDGET_HOST_PAGES or _BYTES and run again.")


def test_the_time_per_url_is_that_of_the_last_run():
    """Before it, the crawl did not run for a day."""
    with closing(TotalsFile(run_began_at=T0 + 86_400)) as file:
        for start in (T0, T0 + 86_400):
            file.add(line(f"http://a.test/{n}", "http_200", T0, sent=start + 9 * n) for n in (1, 2))
        file.replace_queues([("a.test", "ready", 0.0, 10)])
        ((_, _, _, _, left, period, *_),) = hosts_page(file).table.rows
    assert (left, period) == ("90 s", "9 s")


def test_each_host_is_a_link_and_other_pages_are_linked():
    with closing(TotalsFile()) as file:
        file.replace_queues((f"h{n:03d}.test", "ready", 0.0, 1) for n in range(HOSTS_SHOWN + 1))
        hosts = hosts_page(file, order="name")
        values = {"title": "x", "states": FILTERS, "orders": ORDERS, "step": HOSTS_SHOWN}
        root = html.fromstring(render("hosts.html", hosts=hosts, **values))
        (more,) = root.xpath("//a[@rel='next']/@href")
        assert more == "hosts?q=&state=all&sort=name&offset=100"
        assert root.xpath("//td/a/@href")[0] == "./?url=h000.test#ask"
        assert len(root.xpath("//td/a")) == HOSTS_SHOWN
        last = hosts_page(file, order="name", offset=HOSTS_SHOWN)
        root = html.fromstring(render("hosts.html", hosts=last, **values))
        assert root.xpath("//a[@class='button']/@rel") == ["prev"]

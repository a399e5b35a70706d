"""``scrapy report``: the page, as other programs read it, and as a browser shows it."""

from __future__ import annotations

import json
import re
import sqlite3
from argparse import Namespace
from itertools import pairwise
from unittest.mock import Mock

import msgspec
import pytest
import warm
from browsing import Tab, chromium
from frontier_rig import entry
from golden import golden
from looking import contents
from lxml import html
from reading_report import line, report_of, tables_of, write_history, write_log
from scrapy.settings import Settings
from stored_job import Stored, in_use
from text_tables import each

from webcrawl.commands.report import _run
from webcrawl.doctor.diagnosis import Cause, Diagnosis
from webcrawl.doctor.record import Line, Record
from webcrawl.errors import FatalError, require_package
from webcrawl.jobs.inspect.examination import facts_of
from webcrawl.jobs.inspect.job_view import ask
from webcrawl.jobs.inspect.overview import overview
from webcrawl.jobs.report.model import Live, NextCommand
from webcrawl.jobs.report.page import page, render
from webcrawl.jobs.report.totals_file import TotalsFile
from webcrawl.states import CrawlState, State
from webcrawl.wording import escape_controls

T0 = 1_800_000_000.0

MODULE_FAILS = "docs/howto/when-something-is-wrong.md#a-processing-module-fails"
HOSTILE = "</style><script>alert(1)</script><img src=//x.test/>$\\frac{1}{2}$\x00\x1b[2J\u202e"


def lines(count=3000):
    """A log in which every figure has something to show."""
    for number in range(count):
        at = T0 + 40.0 * number
        url = (
            f"http://www.host{number % 397 % (1 + number % 60)}.{('com', 'org', 'de')[number % 3]}/"
        )
        if number % 9 == 0:
            outcome = ("http_404", "http_503", "dns_not_found", "robots_denied", "timeout")
            yield line(url, outcome[number // 9 % 5], at, bytes=300, via="http://a.test/")
            continue
        kind = ("text/html", "text/html", "image/gif", "application/xhtml+xml")[number % 4]
        facts = {"type": kind, "depth": number % 7, "duplicate": number % 11 == 0}
        size = (number * 7919) % 100_000
        yield line(url, "http_200", at, bytes=size, took=0.001 * (1 + number % 900), **facts)


STATS = {}


@pytest.fixture
def stored(tmp_path, clock):
    """A crawl with URLs left; its log is written anew by a test."""
    stored = Stored(tmp_path / "job", clock)
    stored.rig.push(*(entry(f"h{number % 3}.test", number) for number in range(9)))
    stored.rig.next()
    stored.publish()
    return stored.path


def write_all(path):
    """Write everything of which the report has figures."""
    write_log(path, lines())
    (path / "stats.json").write_text(json.dumps(STATS))
    ats = range(int(T0), int(T0) + 120_000, 400)
    write_history(path, ats, waiting=int, busy=lambda number: number % 7)


def run(*arguments):
    done = warm.scrapy("report", *arguments)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_a_page_is_self_contained_and_changes_nothing_else(stored, tmp_path):
    write_all(stored)
    before = contents(stored)
    done = run(stored)
    assert done.returncode == 0
    written = stored / "report.html"
    after = contents(stored)
    assert after.pop(written)
    assert after == before
    text = written.read_text("utf-8")
    assert done.stdout == f"2,666 pages; the report is {written}\n"
    root = html.fromstring(text)
    assert root.xpath("//script | //link | //img | //iframe | //object | //form") == []
    policy = root.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert re.fullmatch(r"default-src 'none'; style-src 'sha256-[\w+/]{43}='", policy[0])
    assert all(value.startswith("#") for value in root.xpath("//@href"))
    assert not re.search(r"url\(|@import", text)
    assert root.xpath("//@style") == []
    ids = root.xpath("//@id")
    assert len(ids) == len(set(ids))
    assert {value[1:] for value in root.xpath("//@href")} <= {*ids}
    drawings = root.xpath("//*[local-name()='svg'][@role='img']")
    assert len(drawings) == 8
    assert text.count(">time (UTC)</text>") == 8
    assert ">Mbit/s</text>" in text
    assert all(len(one.find("title").text) > 20 for one in drawings)
    # Without its drawing, each figure is a table.
    tables = tables_of(text)
    empty = "runs journal seeds-report"
    assert [name for name, rows in tables.items() if not rows] == empty.split()
    assert tables["responsecode-report"][0][:2] == ["http_200", "2,666"]
    # The rows of some tables have bars, the longest one for the largest number.
    bars = root.xpath("//figure[@id='responsecode-report']//td[@class='bars']//@d")
    assert bars[:2] == ["M0 0h100.0v1H0z", "M0 0h2.5v1H0z"]
    assert len(root.xpath("//figure[.//td[@class='bars']]")) == 2


def test_a_crawl_without_a_page_has_a_report_that_says_so(stored, tmp_path):
    other = tmp_path / "page.html"
    done = run(stored, "-o", other)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"0 pages; the report is {other}\n"
    assert "None so far." in other.read_text("utf-8")
    assert not (stored / "report.html").exists()


def test_a_crawl_that_runs_is_read_as_it_is(stored):
    write_log(stored, lines(10))
    assert report_of(stored).head[0].startswith("killed (can be resumed); began 20")
    with in_use(stored):
        found = report_of(stored)
    assert found.head[0].startswith("running; began 20")


def test_the_first_screen_says_whether_the_crawl_is_well(stored):
    """What its doctor said, and what waits, is parked and fails."""
    write_log(stored, lines(90))
    disk = Diagnosis(Cause.DISK, T0, "event loop held up for 40 ms", "")
    running = State(CrawlState.RUNNING)
    said = [
        Record(state=running, diagnosis=disk, waiting=waiting, busy=3, parked={"reputation": 5})
        for waiting in (100, 60)
    ]
    data = [msgspec.json.encode(Line(T0 + 10 * at, one)) for at, one in enumerate(said)]
    (stored / "logs/stats.jsonl").write_bytes(b"\n".join(data) + b"\n")
    write_history(stored, (T0, T0 + 60), waiting=lambda number: 100 - 40 * number)
    stats = {
        "frontier/waiting": 60,
        "frontier/parked/reputation": 5,
        "crawl/critical/my.Module": 2,
    }
    (stored / "stats.json").write_text(json.dumps(stats))
    model = report_of(stored)
    assert model.alarms == [
        "stopped: killed; it can be resumed",
        f"my.Module failed on 2 pages: see logs/critical.jsonl and {MODULE_FAILS}",
    ]
    tables = tables_of(page(model))
    names = ("waiting", "faults", "responsecode-report", "crawl-report")
    rows = [f"{name}: {' | '.join(row)}\n" for name in names for row in tables[name]]
    assert "".join(rows) == golden("first-screen.txt", "".join(rows))
    # The same rows as those of ``scrapy why``.
    (process,) = html.fromstring(page(model)).xpath("//dl[@class='process']")
    facts = [(one.text.lower(), one.getnext().text) for one in process.iter("dt")]
    assert facts[:-1] == facts_of(model.processes[0], model.at)
    parked = dict(facts)["parked"]
    assert parked.startswith(
        "5 URLs parked because of their domain's page budget; it is REPUTATION_BASE"
    )
    assert "up to REPUTATION_ROUNDS times, when nothing else can be fetched soon" in parked
    values = {"REPUTATION_ROUNDS": 12}
    assert "REPUTATION_ROUNDS (now 12) times" in page(live(model, settings=values))
    # The same rows as those of ``scrapy frontier``.
    longest = ask(stored, lambda view: overview(view, top=9)).top
    waiting = [[row[0], row[2]] for row in tables["hosts"] if row[2] != "0"]
    assert waiting == [[one.name, str(one.waiting)] for one in longest]
    assert {one.name for one in longest} == {"h0.test", "h1.test", "h2.test"}


@each(
    "reason lost alarms",
    ("", 0, ["stopped: killed; it can be resumed"]),
    ("memusage_exceeded", 0, ["stopped: memusage_exceeded"]),
    ("shutdown", 0, []),
    ("control_stopped", 0, []),
    ("hive_stopped", 0, []),
    ("closespider_timeout", 0, []),
    ("shutdown", 1, ["robots.txt now denies 1 page fetched before, such as on a.test"]),
    ("shutdown", -1, []),  # restored after a page of the last run
)
def test_problems_raise_alarms_and_a_requested_stop_does_not(stored, reason, lost, alarms):
    write_log(stored, lines(100))
    running = State(CrawlState.RUNNING)
    said = Record(state=running, diagnosis=Diagnosis(Cause.POLITENESS, T0, "9 hosts rest"))
    (stored / "logs/stats.jsonl").write_bytes(msgspec.json.encode(Line(T0 + 300, said)) + b"\n")
    stats = {"finish_reason": reason, "crawl/robots/lost/a.test": lost}
    (stored / "stats.json").write_text(json.dumps(stats))
    assert report_of(stored).alarms == alarms


def test_html_in_urls_and_content_types_stays_text(tmp_path):
    odd = line(f"http://{HOSTILE}/", "http_200", T0, type=HOSTILE)
    lost = line(f"http://b.test/{HOSTILE}", "http_404", T0, via=f"http://a.test/{HOSTILE}")
    write_log(tmp_path, [odd, odd, lost])
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "report.html").read_text("utf-8")
    assert html.fromstring(text).xpath("//script | //img") == []
    assert tables_of(text)["responsecode-report"][1][-1] == escape_controls(
        f"http://b.test/{HOSTILE}"
    )
    assert escape_controls(text) == text


def live(model, **facts):
    """*model* as the page of a running crawl."""
    line = "scrapy control j pause"
    command = NextCommand("pause", HOSTILE, line, {HOSTILE: HOSTILE}, question=HOSTILE)
    part = {"token": HOSTILE, "commands": [command], "answer": HOSTILE, "question": HOSTILE}
    part |= {"why": HOSTILE} | facts
    return msgspec.structs.replace(model, live=Live(**part))


def test_the_live_page_has_questions_commands_and_only_its_own_scripts(stored):
    write_log(stored, lines(90))
    model = report_of(stored)
    text = page(live(model))
    root = html.fromstring(text)
    assert root.xpath("//script/@src") == ["page.js"]
    assert root.xpath("//script/text() | //style | //img | //@style | //@onclick") == []
    assert escape_controls(text) == text
    assert root.xpath("//form/@action") == ["commands/pause", "./#ask"]
    form = root.xpath("//form[@method='post']")[0]
    shown = [escape_controls(HOSTILE)]
    assert form.xpath(".//input[@name='token']/@value") == shown
    assert form.xpath(".//label[@for]/text()") == [*shown, "Reason, for the journal"]
    assert form.xpath("./label[input[@type='checkbox'][@required]]")[0].text_content() == (
        f" {escape_controls(HOSTILE)}"
    )
    assert form.xpath(".//code/text()") == ["scrapy control j pause"]
    assert root.xpath("//pre/text() | //input[@name='url']/@value") == 2 * shown
    # Who may only look has no button to press.
    root = html.fromstring(page(live(model, token="")))
    assert root.xpath("//form[@method='post']") == []
    assert root.xpath("//a[@class='button']/@href") == ["token"]
    root = html.fromstring(render("token.html", title=HOSTILE))
    assert root.xpath("//form | //input") == []
    assert root.xpath("//main//a/@href") == ["token"]
    assert root.findtext(".//h1") == escape_controls(HOSTILE)
    # The script puts these elements in the places of older ones.
    first_screen = render("now.html", page=model)
    assert first_screen.strip() in page(model)
    assert html.fromstring(first_screen).get("id") == "now"
    assert 'id="further"' in page(live(model))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{}/none"], "report: There is no crawl in JOBDIR {}/none"),
        (["{}", "-o", "{}/no/report.html"], "cannot be written: name a file in"),
        (["{}", "{}"], "name one job directory"),
    ],
)
def test_unusable_input_is_refused_in_a_sentence(tmp_path, arguments, sentence):
    write_log(tmp_path, lines(10))
    done = run(*(one.format(tmp_path) for one in arguments))
    assert (done.returncode, done.stdout.count("the report is")) == (2, 0)
    assert sentence.format(tmp_path) in done.stderr + done.stdout


def test_a_disk_without_room_for_the_hosts_is_reported_in_a_sentence(tmp_path, monkeypatch):
    write_log(tmp_path, lines(10))
    trouble = Mock(side_effect=sqlite3.OperationalError("database or disk is full"))
    monkeypatch.setattr(TotalsFile, "add", trouble)
    unset = dict.fromkeys(("output", "csv", "bundle"))
    options = Namespace(json=False, **unset)
    with pytest.raises(FatalError, match="cannot be written: database or disk is full"):
        _run([str(tmp_path)], options, Settings())


def test_a_missing_library_is_named_with_the_command_to_install_it():
    require_package("duckdb", feature="The report")
    with pytest.raises(FatalError) as error:
        require_package("no_such_library", feature="The report")
    assert str(error.value) == (
        "The report needs no_such_library: make modules (or pip install 'webcrawl[modules]')."
    )


# --- in a browser

# Of each drawing its size and the boxes of its texts; of each text on the page its colours.
SEEN = """() => {
  const box = one => {
    const found = one.getBoundingClientRect();
    return [found.left, found.top, found.right, found.bottom];
  };
  const ground = one => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (colour !== 'rgba(0, 0, 0, 0)') return colour;
    }
  };
  const texts = [...document.querySelectorAll('h1, h2, h3, p, dt, dd, th, td, summary, svg text')];
  const charts = [...document.querySelectorAll('svg[role=img]')];
  return {
    wide: document.documentElement.scrollWidth,
    ground: getComputedStyle(document.body).backgroundColor,
    drawings: charts.map(one => ({
      name: one.closest('figure').id, box: box(one),
      texts: [...one.querySelectorAll('text')].map(text => [text.textContent, box(text)]),
      fill: [...one.querySelectorAll('text')].map(p => getComputedStyle(p).fill),
    })),
    holes: [...document.querySelectorAll('.figures')].filter(grid => {
      const panels = [...grid.children].map(box), whole = box(grid);
      const area = panels.reduce((sum, [x, y, r, b]) => sum + (r - x) * (b - y), 0);
      const inner = (whole[2] - whole[0] - 2) * (whole[3] - whole[1] - 2);  // without borders
      return area < 0.98 * inner;
    }).length,
    colours: [...new Set(texts.map(one => {
      const style = getComputedStyle(one);
      return [one instanceof SVGElement ? style.fill : style.color, ground(one)].join('|');
    }))],
  };
}"""


def luminance(colour):
    channels = [int(one) / 255 for one in re.findall(r"\d+", colour)[:3]]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(pair):
    """As WCAG 2 has it."""
    dark, light = sorted(map(luminance, pair.split("|")))
    return (light + 0.05) / (dark + 0.05)


def overlapping(boxes):
    """Texts that lie over each other by more than a pixel and a half."""
    for number, (one, a) in enumerate(boxes):
        for other, b in boxes[number + 1 :]:
            across = min(a[2], b[2]) - max(a[0], b[0])
            if across > 1.5 and min(a[3], b[3]) - max(a[1], b[1]) > 4:
                yield one, other


@pytest.mark.long
def test_a_browser_shows_it_light_and_dark_wide_and_narrow(stored, tmp_path):
    write_all(stored)
    written = tmp_path / "report.html"
    assert run(stored, "-o", written).returncode == 0
    found = {}
    with chromium() as browser:
        for scheme in ("light", "dark"):
            for width in (1400, 360):
                tab = Tab(browser, width=width, color_scheme=scheme)
                tab.page.goto(written.as_uri())
                for details in tab.page.query_selector_all("summary"):
                    details.click()
                found[scheme, width] = tab.page.evaluate(SEEN)
                assert (tab.said, tab.asked) == ([], [written.as_uri()])
    for (_, width), seen in found.items():
        assert seen["wide"] <= width
        assert len(seen["drawings"]) == 8
        assert seen["holes"] == 0
        assert min(map(contrast, seen["colours"])) >= 4.5, seen["colours"]
        for one in seen["drawings"]:
            left, top, right, bottom = one["box"]
            assert right - left > 230, one["name"]
            assert bottom - top > 15, one["name"]
            assert list(overlapping(one["texts"])) == [], one["name"]
            for text, box in one["texts"]:
                assert min(box[2] - box[0], box[3] - box[1]) > 4, (one["name"], text)
                assert max(box[2] - box[0], box[3] - box[1]) > 9, (one["name"], text)
                assert box[0] >= left - 1, (one["name"], text)
                assert box[2] <= right + 1, (one["name"], text)
    for width in (1400, 360):
        light, dark = found["light", width], found["dark", width]
        assert luminance(light["ground"]) > 0.8
        assert luminance(dark["ground"]) < 0.02
        for one, other in zip(light["drawings"], dark["drawings"], strict=True):
            assert one["fill"] != other["fill"], one["name"]
    tops = [one["box"][1] for one in found["light", 360]["drawings"]]
    assert all(above < below for above, below in pairwise(tops))  # one column

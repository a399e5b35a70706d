"""``scrapy report``: the page, as other programs read it, and as a browser shows it."""

from __future__ import annotations

import json
import re
import sqlite3
from argparse import Namespace
from itertools import pairwise
from unittest.mock import Mock

import pytest
import warm
from frontier_rig import entry
from looking import contents
from lxml import etree, html
from PIL import Image
from playwright.sync_api import sync_playwright
from reading_report import line, report_of, tables_of, write_log
from scrapy.settings import Settings
from stored_job import Stored

from webcrawl.commands.report import _run
from webcrawl.crawl.job.jobdir import Job
from webcrawl.errors import FatalError, needs
from webcrawl.jobs.report.host_totals import HostTotals

T0 = 1_800_000_000.0
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


# With waits after fetches of seven kinds.
STATS = {"crawl/urls/refused/scope": 7} | {
    f"crawl/politeness/waits/{4.0**took:g}/{2.0**waited:g}": 9 + took + waited
    for took in range(-5, 2)
    for waited in range(max(1, 2 * took + 3), 12)
}


@pytest.fixture
def stored(tmp_path, clock):
    """A crawl with URLs left; its log is written anew by a test."""
    stored = Stored(tmp_path / "job", clock)
    stored.rig.push(*(entry(f"h{number % 3}.test", number) for number in range(9)))
    stored.rig.next()
    stored.publish()
    return stored.path


def run(*arguments):
    done = warm.scrapy("report", *arguments)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_a_page_has_all_in_itself_and_changes_nothing_else(stored, tmp_path):
    write_log(stored, lines())
    (stored / "stats.json").write_text(json.dumps(STATS))
    before = contents(stored)
    done = run(stored, "--price-per-hour", "0.5", "--figures", tmp_path / "figures")
    assert (done.returncode, done.stderr) == (0, "")
    written = stored / "report.html"
    after = contents(stored)
    assert after.pop(written)
    assert after == before
    text = written.read_text("utf-8")
    assert done.stdout == f"2,666 pages; the report is {written}\n"
    root = html.fromstring(text)
    assert root.xpath("//script | //link | //img | //iframe | //object") == []
    links = [value for one in root.iter() for name, value in one.items() if "href" in name]
    assert all(value.startswith("#") for value in links)
    assert not re.search(r"url\((?!#)|@import", text)
    ids = root.xpath("//@id")
    assert len(ids) == len(set(ids))
    assert {value[1:] for value in links} | set(re.findall(r"url\(#(.+?)\)", text)) <= set(ids)
    drawings = root.xpath("//*[local-name()='svg']")
    assert len(drawings) == 14
    assert text.count(">time (UTC)</text>") == 3
    assert ">Mbit/s</text>" in text
    assert all(len(one.get("aria-label")) > 20 for one in drawings)
    # Without its drawing, each figure is a table.
    assert all(tables_of(text).values())
    assert tables_of(text)["outcomes"][0] == ["http_200", "2,666", "88.9 %"]
    files = sorted((tmp_path / "figures").iterdir())
    assert len(files) == 28
    for path in files:
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert image.width == 800
        else:
            assert etree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_a_crawl_without_a_page_has_a_report_that_says_so(stored, tmp_path):
    other = tmp_path / "page.html"
    done = run(stored, "-o", other)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"0 pages; the report is {other}\n"
    root = html.fromstring(other.read_text("utf-8"))
    leads = {one.get("id"): one.findtext("p") for one in root.iter("figure")}
    assert leads["documents"] == leads["types"] == leads["hosts-by-tld"] == "No pages yet."
    assert leads["errors"] == "No URL was given up."
    assert leads["politeness"] == "No host has been contacted twice in one run yet."
    assert not (stored / "report.html").exists()


def test_a_crawl_that_runs_is_read_as_it_is(stored):
    write_log(stored, lines(10))
    assert report_of(stored).head[0].startswith("cut off, can be resumed; 20")
    job = Job(path=stored)
    job.open(spider="web")
    try:
        found = report_of(stored)
    finally:
        job.close()
    assert found.head[0].startswith("running; 20")


def test_html_in_urls_and_content_types_stays_text(tmp_path):
    odd = line(f"http://{HOSTILE}/", "http_200", T0, type=HOSTILE)
    write_log(tmp_path, [odd, odd])
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "report.html").read_text("utf-8")
    assert html.fromstring(text).xpath("//script | //img") == []
    assert tables_of(text)["types"][0][0] == HOSTILE.replace("\x00", "\ufffd")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{}/none"], "report: There is no crawl in JOBDIR {}/none"),
        (["{}", "-o", "{}/no/report.html"], "report: The report cannot be written"),
        (["{}", "--price-per-hour", "nan"], "--price-per-hour must be a number"),
        (["{}", "{}"], "name one job directory"),
    ],
)
def test_unusable_input_is_refused_in_a_sentence(tmp_path, arguments, sentence):
    write_log(tmp_path, lines(10))
    done = run(*(one.format(tmp_path) for one in arguments))
    assert (done.returncode, done.stdout.count("the report is")) == (2, 0)
    assert sentence.format(tmp_path) in done.stderr + done.stdout


def test_a_disk_without_room_for_the_hosts_is_told_in_a_sentence(tmp_path, monkeypatch):
    write_log(tmp_path, lines(10))
    trouble = Mock(side_effect=sqlite3.OperationalError("database or disk is full"))
    monkeypatch.setattr(HostTotals, "add", trouble)
    options = Namespace(price_per_hour=None, output=None, figures=None)
    with pytest.raises(FatalError, match="cannot be written: database or disk is full"):
        _run([str(tmp_path)], options, Settings())


def test_a_library_that_is_missing_is_named_with_the_command_that_installs_it():
    needs("matplotlib", of="The report")
    with pytest.raises(FatalError) as error:
        needs("no_such_library", of="The report")
    assert str(error.value) == (
        "The report needs no_such_library: make modules (or pip install -r "
        "requirements-modules.txt)."
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
  return {
    wide: document.documentElement.scrollWidth,
    ground: getComputedStyle(document.body).backgroundColor,
    drawings: [...document.querySelectorAll('svg')].map(one => ({
      name: one.closest('figure').id, box: box(one),
      texts: [...one.querySelectorAll('text')].map(text => [text.textContent, box(text)]),
      fill: [...one.querySelectorAll('path')].map(p => getComputedStyle(p).fill),
    })),
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
    write_log(stored, lines())
    (stored / "stats.json").write_text(json.dumps(STATS))
    written = tmp_path / "report.html"
    assert run(stored, "-o", written, "--price-per-hour", "0.5").returncode == 0
    found = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox"],  # root has none
        )
        for scheme in ("light", "dark"):
            for width in (1400, 360):
                tab = browser.new_page(
                    viewport={"width": width, "height": 900}, color_scheme=scheme
                )
                said, asked = [], []
                tab.on("console", lambda message, said=said: said.append(message.text))
                tab.on("request", lambda request, asked=asked: asked.append(request.url))
                tab.goto(written.as_uri())
                for details in tab.query_selector_all("summary"):
                    details.click()
                found[scheme, width] = tab.evaluate(SEEN)
                assert (said, asked) == ([], [written.as_uri()])
                tab.close()
        browser.close()
    for (_, width), seen in found.items():
        assert seen["wide"] <= width
        assert len(seen["drawings"]) == 14
        assert min(map(contrast, seen["colours"])) >= 4.5, seen["colours"]
        for one in seen["drawings"]:
            left, top, right, bottom = one["box"]
            assert right - left > 290, one["name"]
            assert bottom - top > 25, one["name"]
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

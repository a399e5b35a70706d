"""What the report says needs attention: failures that are not normal, and warnings of the log."""

import logging
import re
from pathlib import Path

import msgspec
from lxml import html
from msgspec.structs import replace
from reading_report import figure, report_of, write_log
from scrapy.utils.test import get_crawler
from stored_job import in_use
from text_tables import each

from webcrawl.doctor.diagnosis import Cause, Diagnosis
from webcrawl.doctor.history import History
from webcrawl.doctor.record import Line, Record
from webcrawl.extensions.repeated_lines import RepeatedLines
from webcrawl.jobs.report import guides
from webcrawl.jobs.report.guides import guide_names, guide_sections, guide_url, with_guides
from webcrawl.jobs.report.over_time import fault_alarms
from webcrawl.jobs.report.page import render
from webcrawl.jobs.report.warning_log import HOW_TO, how_to
from webcrawl.states import State

ROOT = Path(__file__).parents[3]
T0 = 1_800_000_000
RECORD = Record(state=State("running"), diagnosis=Diagnosis(Cause.POLITENESS, 0.0, ""))


def write_hours(jobdir, *hours):
    """A history in which each of *hours* has 1,000 URLs: these outcomes, and pages."""
    history = History(jobdir / "history", at=T0)
    stats = {}
    for number, outcomes in enumerate(hours):
        pages = {"http_200": 1000 - sum(outcomes.values())}
        for outcome, count in (outcomes | pages).items():
            stats[f"outcome/{outcome}"] = stats.get(f"outcome/{outcome}", 0) + count
        history.add(T0 + 3600 * number + 1800, stats, RECORD)


@each(
    "hours alarm",
    ([{}, {"http_404": 400, "robots_denied": 500}], ""),  # both are normal
    ([{}, {"timeout": 99}], ""),
    (
        [{}, {"timeout": 50, "tls_failed": 50}],
        "10.0% of 1,000 URLs of the last hour failed, and 0.0%",
    ),
    ([{"timeout": 10}, {"timeout": 29}], "2.9% of 1,000 URLs of the last hour failed, and 1.0%"),
    ([{"timeout": 5}, {"timeout": 19}], ""),  # few may be chance
    ([{"http_503": 30}, {"http_503": 50, "timeout": 45}], "9.5% of 1,000 URLs of the last hour "),
    ([{"http_503": 300}, {"http_503": 310}], ""),  # as always
    (
        [{"http_503": 100}, {"http_503": 300}],
        "30.0% of 1,000 URLs of the last hour failed, and 10.0%",
    ),
    ([{"http_429": 300}], "30.0% of 1,000 URLs of the last hour failed"),
)
def test_failures_need_attention_if_there_are_more_than_the_day_before(tmp_path, hours, alarm):
    write_hours(tmp_path, *hours)
    alarms = fault_alarms([tmp_path])
    assert [one[: len(alarm)] for one in alarms] == [alarm] * bool(alarm)
    assert all(
        re.search(r" \((connections|server errors|refused|all kinds)\): see docs/", one)
        for one in alarms
    )


@each(
    "secs pages cause alarm",
    (
        400,
        0,
        Cause.BUDGETS,
        "No page was fetched for 300 s, because of budgets: 3,475 URLs parked, ",
    ),
    (400, 0, Cause.REFUSALS, "No page was fetched for 300 s, because of refus"),
    (400, 1, Cause.BUDGETS, ""),
    (200, 0, Cause.BUDGETS, ""),  # it has just begun
    (400, 0, Cause.POLITENESS, ""),  # its hosts may want long pauses
    (400, 0, Cause.PAUSED, ""),  # has its own sentence
)
def test_a_crawl_that_fetches_nothing_needs_attention(tmp_path, secs, pages, cause, alarm):
    limit = Diagnosis(
        cause, T0, "3,475 URLs parked, 7 waiting", "raise BUDGET_HOST_PAGES or _BYTES"
    )
    record = replace(RECORD, diagnosis=limit)
    write_log(tmp_path, [])
    (tmp_path / "logs/stats.jsonl").write_bytes(msgspec.json.encode(Line(T0, record)) + b"\n")
    with in_use(tmp_path):
        history = History(tmp_path / "history", at=T0)
        for at in range(10, secs, 10):
            history.add(T0 + at, {"outcome/http_200": pages * at, "outcome/timeout": at}, record)
        alarms = report_of(tmp_path).alarms
    shown = [one for one in alarms if one.startswith("No page")]
    assert [one[: len(alarm)] for one in shown] == [alarm] * bool(alarm)
    assert all(
        one.endswith(
            "; raise BUDGET_HOST_PAGES or _BYTES. See docs/"
            "howto/when-something-is-wrong.md#the-crawl-is-slow"
        )
        for one in shown
    )


def test_the_last_warnings_are_counted_and_errors_come_first(tmp_path, monkeypatch):
    """Also those of an earlier run. Scrapy's root logger has no level of its own."""
    monkeypatch.setattr(logging.getLogger(), "level", logging.NOTSET)
    write_log(tmp_path, [])
    for run in range(2):
        crawler = get_crawler(settings_dict={"JOBDIR": str(tmp_path)})
        extension = RepeatedLines(crawler=crawler)
        extension.spider_opened()
        for number in range(3000):
            logging.getLogger("my.module").warning("page %d failed\nwith a traceback", number)
        logging.getLogger("webcrawl.extensions.disk_guard").error("%d MB are free", run)
        extension._engine_stopped()
    assert len((tmp_path / "logs/warnings.jsonl").read_bytes().splitlines()) == 14
    table = figure(report_of(tmp_path), "warnings").table
    shown = [(row[0], row[1], row[4], row[5]) for row in table.rows]
    assert shown == [
        ("error", 2, "1 MB are free", how_to("webcrawl.extensions.disk_guard")),
        ("warning", 6000, "page 5 failed", how_to("my.module")),
    ]
    assert all(re.match(r"\d{4}-", row[2]) and row[2] <= row[3] for row in table.rows)


def test_pages_about_what_to_do_exist():
    for page in HOW_TO.values():
        name, _, heading = page.partition("#")
        titles = re.findall(r"^#+ (.+)$", (ROOT / name).read_text("utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
        assert not heading or heading in anchors, page
        # The monitor shows the page, with the same anchors.
        url = guide_url(page)
        assert url.startswith("help/")
        sections = guide_sections(url.removeprefix("help/").partition("#")[0])
        assert [heading] == [one.anchor for one in sections if one.anchor == heading] or not heading


def test_guides_are_shown_with_links_to_others(tmp_path):
    page = "docs/howto/run-it-for-weeks.md#disk"
    other = f"docs/howto/{'none'}.md"
    assert with_guides(f"<b> see {page}, {other}") == (
        f'&lt;b&gt; see <a href="help/run-it-for-weeks#disk">{page}</a>, {other}'
    )
    for name in guide_names():
        root = html.fromstring(render("guide.html", title="x", sections=guide_sections(name)))
        ids = root.xpath("//@id")
        assert len(ids) == len(set(ids)), name
        linked = {url for url in root.xpath("//main//a/@href") if not url.startswith("#")}
        assert {url.partition("#")[0] for url in linked} <= guide_names()


def test_guides_are_shown_as_html(tmp_path, monkeypatch):
    text = [
        "# A <b>",
        "One *two* **three `4`**\nlines, `a*b*`; [`x`](run-it-for-weeks.md#disk), [here](#a-b).",
        "- first\n- second <script>\n  continues",
        "2. two\n3. three, [stats](../reference/made.md#x), [no](javascript:alert%281%29)",
        "    code <i>\n\n      more **not bold**",
        "| h | `a \\| b` |\n|---|---|\n| 1 | **2** |",
        "```text\nfenced\n\n  | x\n```",
    ]
    (tmp_path / "made.md").write_text("\n\n".join(text))
    monkeypatch.setattr(guides, "_DIRECTORIES", (*guides._DIRECTORIES, tmp_path))
    ((heading, anchor, shown),) = guide_sections("made")
    assert (heading, anchor) == ("A <b>", "a-b")
    assert shown.splitlines() == [
        "<p>One <em>two</em> <strong>three <code>4</code></strong>",
        (
            'lines, <code>a*b*</code>; <a href="run-it-for-weeks#disk"><code>x</code></a>, '
            '<a href="#a-b">here</a>.</p>'
        ),
        "<ul><li>first",
        "</li><li>second &lt;script&gt;",
        "  continues</li></ul>",
        '<ol start="2"><li>two',
        (
            f"</li><li>three, stats (<code>docs/{'reference'}/made.md#x</code>), "
            "no (<code>javascript:alert%281%29</code>)</li></ol>"
        ),
        '<pre tabindex="0">code &lt;i&gt;',
        "",
        "  more **not bold**</pre>",
        (
            '<div class="scroll" tabindex="0"><table><tr><th>h</th><th><code>a | b</code></th></tr>'
            "<tr><td>1</td><td><strong>2</strong></td></tr></table></div>"
        ),
        '<pre tabindex="0">fenced',
        "",
        "  | x</pre>",
    ]


def test_no_markdown_is_left_in_a_guide():
    for name in guide_names():
        root = html.fromstring(render("guide.html", title="x", sections=guide_sections(name)))
        for code in root.xpath("//pre | //code"):
            code.drop_tree()
        left = re.findall(r"\*\*|`|\]\(|^\||^- |\|---", root.text_content(), re.MULTILINE)
        assert left == [], name

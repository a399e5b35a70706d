"""The report of a job, in process, and its page read back by another library."""

from contextlib import closing, contextmanager

import msgspec
from lxml import html
from scrapy.settings import Settings

from webcrawl.crawl.lease.outcome_log import INFO_LOG, OutcomeLine
from webcrawl.doctor.diagnosis import Cause, Diagnosis
from webcrawl.doctor.history import NAME, History
from webcrawl.doctor.record import Record
from webcrawl.hive.launch.job_directories import jobdirs_of
from webcrawl.jobs.report.sections import report
from webcrawl.jobs.report.sources import CrawlReader
from webcrawl.states import State


@contextmanager
def open_crawl(path, **settings):
    """All that was read of the crawl in *path*, with its file of totals."""
    with closing(CrawlReader(path, jobdirs_of(path), Settings(settings))) as reader:
        reader.add(lambda _: None)
        yield reader.crawl()


def crawl_of(path):
    """The crawl in *path*, whose file of totals is closed."""
    with open_crawl(path) as crawl:
        return crawl


def report_of(path):
    """The report of the crawl in *path*."""
    with open_crawl(path) as crawl:
        return report(crawl, at=2e9)


def figures_of(found):
    """All figures in the order in which they are on the page."""
    below = [one for section in found.sections.values() for one in section]
    return [*found.rates, *found.outcomes, found.runs, found.commands, *below]


def figure(found, name):
    """The figure called *name*."""
    return next(one for one in figures_of(found) if one.name == name)


def numbers(found, name):
    """The second column of the table of the figure *name* by the first."""
    table = figure(found, name).table
    return {str(row[0]): row[1] for row in table.rows}


def tables_of(page):
    """The rows of text of each figure's table in the HTML *page*, as lxml finds them."""
    root = html.fromstring(page)
    return {
        one.get("id"): [
            [cell.text_content() for cell in row if cell.get("class") != "bars"]
            for row in one.findall(".//tbody/tr")
        ]
        for one in root.iter("figure")
    }


def line(url, outcome, at, **facts):
    """A line of the log; the host is none, as nothing reads it."""
    if outcome.startswith("http_"):
        facts = {"status": int(outcome[5:]), "took": 0.1, **facts}
    form = str(facts.pop("form", "0" * 16))
    return OutcomeLine(at, url, "", outcome, form, **facts)


def write_history(jobdir, ats, **gauges):
    """The history of a process with samples at *ats*: *gauges* by the number of the sample,
    and as many pages and URLs that timed out, in all, as the square of that number."""
    jobdir.mkdir(parents=True, exist_ok=True)
    history = History(jobdir / NAME, at=ats[0] - 10)
    diagnosis = Diagnosis(Cause.POLITENESS, 0.0, "")
    for number, at in enumerate(ats):
        square = number * number
        stats = {"outcome/http_200": square, "outcome/timeout": square, "fetch/bytes": square}
        found = {name: gauge(number) for name, gauge in gauges.items()}
        record = Record(state=State("running"), diagnosis=diagnosis, **found)
        free = {"free disk": max(1e12 - 1e9 * square, 0.0)}
        history.add(at, stats, record, lag=0.001 * number, memory=1e6 * number, **free)


def write_log(jobdir, lines, *, more=b""):
    """The log of a job, with *more* behind its *lines*."""
    path = jobdir / INFO_LOG
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.Encoder().encode_lines(list(lines)) + more)
    return path

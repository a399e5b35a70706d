"""The tables of ``scrapy report``: --csv, --json and crawl.log, against the server's own record."""

import csv
import json
import re
from argparse import Namespace
from collections import Counter
from itertools import islice

import pytest
from crawling import is_robots, printed, refusal, simulated, url_of_hit
from disk import full_disk
from reading_report import line, tables_of, write_log
from scrapy.settings import Settings
from warc_checks import records

from webcrawl.commands.report import _run
from webcrawl.errors import FatalError
from webcrawl.jobs.report.heritrix_log import log_line

LOST = "http://lost.sim.test/"
# The columns that Heritrix documents, https://heritrix.readthedocs.io, "crawl.log".
HERITRIX = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) +(?P<code>-?\d+) +(?P<bytes>\d+|-) "
    r"(?P<url>\S+) (?P<hops>-|(\d+\+)?[RELXPIMS]+) (?P<via>\S+) (?P<mime>\S+) #(?P<thread>\d{3,}) "
    r"(?P<fetch>\d{17}\+\d+|-) (?P<digest>\w+:\w+|-) (?P<source>\S+) (?P<annotations>\S+)"
)


def tables_in(directory):
    """The rows of each CSV file in *directory*, as text."""
    found = {}
    for path in directory.glob("*.csv"):
        with path.open(newline="") as file:
            found[path.stem] = list(csv.DictReader(file))
    return found


def test_tables_and_crawl_log_agree_with_the_servers_record(tmp_path):
    # Two copies that arrive together are both stored: one pair of them may have no revisit record.
    with simulated(tmp_path, hosts=15, mean_pages=6.0, max_pages=20, duplicates=0.3) as web:
        with web.seeds.open("a") as seeds:
            seeds.write(f"{LOST}\n")
        web.crawl()
        # The last answer of each URL: some are tried again.
        hits = {url_of_hit(hit): hit for hit in web.hits() if not is_robots(hit)}
    folder = tmp_path / "deep/tables"
    asked = json.loads(printed("report", web.job, "--csv", folder, "--json"))
    assert not (web.job / "report.html").exists()
    tables = tables_in(folder)
    as_text = {
        name: [{key: str(value) for key, value in row.items()} for row in rows]
        for name, rows in asked.items()
    }
    assert tables == as_text

    answers = Counter(hit.status for hit in hits.values())
    codes = {row["outcome"]: row for row in asked["responsecode-report"]}
    assert {row["rescode"]: row["urls"] for row in codes.values() if row["rescode"] > 0} == answers
    counted = {name: row["urls"] for name, row in codes.items()}
    stats = web.stats
    assert counted == {name: stats[f"outcome/{name}"] for name in counted}
    for name in ("hosts-report", "mimetype-report"):
        assert sum(row["bytes"] for row in asked[name]) == sum(hit.size for hit in hits.values())
    assert sum(row["urls"] for row in asked["mimetype-report"]) == len(hits)
    fetches = {row["host"]: row["fetches"] for row in asked["hosts-report"] if row["fetches"]}
    assert fetches == Counter(hit.host for hit in hits.values())
    numbers = {row["name"]: row["value"] for row in asked["crawl-report"]}
    assert numbers["pages"] == sum(row["documents"] for row in asked["mimetype-report"])
    assert numbers["URLs finished"] == sum(counted.values())

    first, *others = asked["seeds-report"]
    assert (first["seed"], first["code"], first["status"]) == (LOST, -1, "NOTCRAWLED")
    assert numbers["seeds failed"] == sum("http_2" not in row["result"] for row in [first, *others])
    assert {row["seed"] for row in [first, *others]} == {*web.seeds.read_text().split()}

    text = (folder / "crawl.log").read_text()
    lines = [HERITRIX.fullmatch(one) for one in text.splitlines()]
    fetched = Counter((one["url"], int(one["code"])) for one in lines if one["bytes"] != "-")
    assert fetched == Counter((url, hit.status) for url, hit in hits.items())
    assert len(lines) == numbers["URLs finished"]
    assert [one["at"] for one in lines] == sorted(one["at"] for one in lines)
    urls = {one["url"] for one in lines}
    vias = {one["via"] for one in lines if not one["via"].endswith("/robots.txt")}
    assert vias <= urls | {"-"}
    stored = [one for path in (web.job / "warc").glob("*.gz") for one in records(path)]
    digests = {
        one.headers["WARC-Target-URI"]: one.headers["WARC-Payload-Digest"]
        for one in stored
        if one.kind in {"response", "revisit"}
        and one.headers["WARC-Target-URI"] in urls
        and re.search(r" 2\d\d ", one.status_line)
    }
    assert "revisit" in {one.kind for one in stored}
    assert {one["url"]: one["digest"] for one in lines if one["digest"] != "-"} == digests
    # As the reader of the UK Web Archive divides a line.
    assert {len(re.split(" +", one, maxsplit=11)) for one in text.splitlines()} == {12}

    printed("report", web.job)
    shown = tables_of((web.job / "report.html").read_text())
    hidden = {"code", "status", "rescode"}  # words of Heritrix
    assert tables.keys() - shown.keys() == {
        "hosts-report",
        "mimetype-report",
    }  # the page has another table of hosts
    for name in tables.keys() & shown.keys():
        rows = tables[name]
        cells = [[cell.replace(",", "") for cell in row] for row in shown[name]]
        expected = [
            [row[column] for column in row if column not in hidden] for row in islice(rows, 50)
        ]
        if name == "responsecode-report":  # by outcome, which comes first
            expected = sorted([outcome, *others] for urls, outcome, *others in expected)
            failed = shown["faults"]  # a table of its own
            cells = sorted([outcome, example] for outcome, *_, example in cells + failed)
        assert cells == expected


@pytest.mark.parametrize(
    ("facts", "columns"),
    [
        ({"kind": "seed"}, "200 5 - - text/html 20270115080000250+100 - - -"),
        (
            {"kind": "img", "depth": 1, "type": "", "via": "http://a b/", "tries": 3},
            "200 5 E http://a%20b/ no-type 20270115080000250+100 - - 3t",
        ),
        (
            {"kind": "redirect", "depth": 4, "truncated": "length"},
            "200 5 3+R - text/html 20270115080000250+100 - - lenTrunc",
        ),
        (
            {"outcome": "robots_denied", "status": 0, "sent": 0.0, "depth": 1},
            "-9998 - L - unknown - - - robots_denied",
        ),
        (
            {"outcome": "walled", "duplicate": True, "visit": "failed", "kind": "loc", "depth": 1},
            "200 5 M - text/html 20270115080000250+100 - - duplicate:digest,walled,failed",
        ),
    ],
)
def test_lines_have_the_columns_of_heritrix(facts, columns):
    facts = {"status": 200, "sent": 1_800_000_000.25, "took": 0.1, "bytes": 5, **facts}
    one = line("http://h/", facts.pop("outcome", "http_200"), 1_800_000_001.5, **facts)
    match = HERITRIX.fullmatch(log_line(one, 7, "-").rstrip("\n"))
    at, code, size, url, *rest = match.group(
        "at",
        "code",
        "bytes",
        "url",
        "hops",
        "via",
        "mime",
        "fetch",
        "digest",
        "source",
        "annotations",
    )
    assert (at, url, match["thread"]) == ("2027-01-15T08:00:01.500Z", "http://h/", "007")
    assert " ".join([code, size, *rest]) == columns


def test_logs_of_a_hive_are_merged_by_time(tmp_path):
    for number in (0, 1):
        lines = [line(f"http://{at}.test/", "http_200", at) for at in range(1 + number, 9, 2)]
        write_log(tmp_path / "drones" / str(number), lines)
    printed("report", tmp_path, "--csv", tmp_path / "tables")
    text = (tmp_path / "tables/crawl.log").read_text()
    assert re.findall(r"http://(\d).*#00(\d)", text) == [
        (str(at), str(1 - at % 2)) for at in range(1, 9)
    ]


@pytest.mark.parametrize("damage", ["no table", "torn"])
def test_without_a_table_of_payloads_there_are_no_digests(tmp_path, damage):
    write_log(tmp_path / "job", [line("http://a.test/", "http_200", 9.0, sent=8.0)])
    if damage == "torn":
        (tmp_path / "job/warc").mkdir()
        (tmp_path / "job/warc/payloads.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    printed("report", tmp_path / "job", "--csv", tmp_path / "tables")
    assert " - - -\n" in (tmp_path / "tables/crawl.log").read_text()


def test_a_directory_is_replaced_whole_or_not_at_all(tmp_path):
    write_log(tmp_path / "job", [line("http://a.test/", "http_200", 9.0)])
    folder = tmp_path / "tables"
    folder.mkdir()
    printed("report", tmp_path / "job", "--csv", folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(before) == 6
    write_log(tmp_path / "job", [line("http://a.test/", "http_200", n) for n in range(1, 200)])
    unset = dict.fromkeys(("output", "bundle"))
    options = Namespace(json=False, csv=folder, **unset)
    with full_disk(4000, FatalError):
        _run([str(tmp_path / "job")], options, Settings())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert {path.name for path in tmp_path.iterdir()} == {"job", "tables"}
    printed("report", tmp_path / "job", "--csv", folder)
    assert (folder / "crawl.log").read_text().count("\n") == 199
    (folder / "notes.txt").touch()
    assert "contains other files" in refusal("report", tmp_path / "job", "--csv", folder)

"""scrapy purge on the job of a real crawl, judged by other readers and by the next crawl."""

import gzip
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import time
from collections import Counter
from types import SimpleNamespace
from urllib.parse import urlsplit

import duckdb
import pytest
import warc_checks
import warm
from crawling import damage_in, kill, refusal, simulated, url_of_hit, wait_until
from published_shard import FACTS
from text_tables import each

from webcrawl.hive.store.store import CheckpointStore
from webcrawl.hosts.records.records_reader import RecordsReader
from webcrawl.jobs.inspect.info_log import outcome_lines
from webcrawl.jobs.purge.files import pass_on_payloads, purge_lines, purge_warc
from webcrawl.jobs.search import search
from webcrawl.pipelines.warc.payloads import StoredPayloads

MODULES = ("warc.WarcPipeline", "text.TextDataset", "search_index.SearchIndex")
SETTINGS = {
    "ITEM_PIPELINES": json.dumps(
        {f"webcrawl.pipelines.{name}": 1 for name in (*MODULES, "link_graph.LinkGraph")}
    ),
    "WARC_MAX_FILE_BYTES": 30_000,
    "POLITENESS_MIN_DELAY": 0.01,
    "POLITENESS_DELAY_FACTOR": 0,
}
SIZE = {"hosts": 6, "mean_pages": 12.0, "max_pages": 24, "duplicates": 0.5}
LOG = "logs/info.jsonl"
#: Stop the process with a signal when it opens a file of the job to write, or renames one, for the
#: Nth time; or, for a negative number, when it examines the Nth URL.
STOPPED = """
import os, sys
number, left, job, *words = sys.argv[1:]
number, left = int(number), int(left)
def count(step):
    global left
    left -= step
    if left == 0:
        os.kill(os.getpid(), number)
def watch(event, arguments):
    is_write = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    if (is_write or event == "os.rename") and os.fsdecode(str(arguments[0])).startswith(job):
        count(left > 0)
def trace(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "is_url_excluded":
        count(-1)
sys.addaudithook(watch)
if left < 0:
    sys.setprofile(trace)
from scrapy.cmdline import execute
execute(["scrapy", "purge", job, *words])
"""
MISSING = re.compile(r"purge: (\d+) WARC files of this crawl cannot be found, such as (\S+)\. If")


def host_of(url):
    return urlsplit(url).hostname


def warcs(job):
    return sorted((job / "warc").glob("*.warc.gz"))


def stored(job):
    return [one for path in warcs(job) for one in warc_checks.records(path)]


def digests(job):
    files = (path for path in job.rglob("*") if path.is_file())
    return {path: hashlib.sha1(path.read_bytes()).hexdigest() for path in files}


def own_texts(job, host):
    """The texts of pages that the record of *host* has, and that of no other host."""
    found = {host_of(line.url): set() for line in outcome_lines(job)}
    with RecordsReader(path=job / "shards/00/hosts") as reader:
        for name, texts in found.items():
            record = reader.record(name)
            texts.update(sample[4:] for sample in (record.samples if record else ()))
    texts = found.pop(host).difference({b""}, *found.values())
    assert texts
    return texts


def holders(job, texts):
    """The files of host records in *job* that have one of *texts*; not those of checkpoints."""
    paths = (path for path in (job / "shards/00/hosts").iterdir())
    return [path for path in paths if any(text in path.read_bytes() for text in texts)]


def column(job, name, pattern):
    query = f"select {name} from '{job}/{pattern}'"
    return [url for (url,) in duckdb.sql(query).fetchall()]


def state(job):
    """What is left in *job* by URL, as others read it, after checks of its files."""
    assert damage_in(job) == []
    assert warc_checks.dangling(warcs(job)) == []
    assert not [*job.rglob("*~")]
    deltas = warm.scrapy("delta", job, "--since", "0").stdout.splitlines()
    hits = search(job / "search", "*", limit=1000).hits
    return {
        "records": {one.headers.get("WARC-Target-URI", "") for one in stored(job)},
        "text": Counter(column(job, "url", "text/*.parquet")),
        "nodes": Counter(column(job, "url", "graph/nodes/*.parquet")),
        "edges": Counter(column(job, "source", "graph/edges/*.parquet")),
        "index": {hit.url for hit in hits},
        "delta": {(one["url"], one["change"]) for one in map(json.loads, deltas)},
    }


@pytest.fixture(scope="module")
def purged(tmp_path_factory):
    """A crawl of which a host is purged whose documents others have too, and then the next crawl.

    The copy of the job before the purge is in ``before``.
    """
    directory = tmp_path_factory.mktemp("purge")
    with simulated(directory, **SIZE) as web:
        web.crawl(**SETTINGS)
        token = warm.scrapy("delta", web.job, "--since", "0").stderr.splitlines()[-1]
        names = ("WARC-Refers-To-Target-URI", "WARC-Target-URI")
        links = ([host_of(one.headers.get(name, "")) for name in names] for one in stored(web.job))
        host = Counter(first for first, other in links if first not in {None, other}).most_common(
            1
        )[0][0]
        shutil.copytree(web.job, before := directory / "before")
        (web.job / "rendering").mkdir()
        (web.job / "rendering/store.sqlite").touch()
        bytes_before = digests(web.job)
        dry = warm.scrapy("purge", web.job, "--host", host, "--dry-run")
        assert digests(web.job) == bytes_before
        done = warm.scrapy("purge", web.job, "--host", host)
        assert not (web.job / "rendering").exists()
        after = state(web.job)
        complaints = [warc_checks.complaints(path) for path in warcs(web.job)[:6]]
        gone = warm.scrapy("delta", web.job, "--since", token).stdout
        again = warm.scrapy("purge", web.job, "--host", host)
        began = time.time()
        assert warm.scrapy("frontier", web.job, "--refetch", "all").returncode == 0
        web.crawl(**SETTINGS)
        asked = [url_of_hit(hit) for hit in web.hits() if hit.start > began]
        assert warc_checks.dangling(warcs(web.job)) == []
    return SimpleNamespace(**locals())


def test_nothing_of_the_host_is_left_and_all_of_the_others(purged):
    was, host = state(purged.before), purged.host
    for name, urls in was.items():
        if name != "delta":
            kept = {url: 1 for url in urls if host_of(url) != host}
            assert 0 < len(kept) < len(urls), name
            assert set(purged.after[name]) == set(kept), name
    assert purged.complaints == [{}] * 6


def test_a_payload_goes_to_the_first_record_that_needs_it_and_the_others_refer_to_that(tmp_path):
    payloads = StoredPayloads(directory=tmp_path, max_bytes=1 << 20)
    payloads.open()
    pages = [warc_checks.page(n, url=f"http://b.test/{n}", body=b"same") for n in range(4)]
    seen = [(page, "content_seen") for page in pages[1:]]
    path = warc_checks.warc_of(tmp_path, pages[0], *seen, warc_checks.page(9), payloads=payloads)
    payloads.close()
    covers = {"http://b.test/0", "http://b.test/2"}.__contains__
    pass_on_payloads([path, path], covers, lambda *_: True)  # the drones of a hive may share it
    purge_warc(path, covers, lambda count: count == 6)
    answers = [one for one in warc_checks.records(path) if one.kind in {"response", "revisit"}]
    fields = ("WARC-Target-URI", "WARC-Refers-To-Target-URI")
    assert [(one.body, *map(one.headers.get, fields)) for one in answers] == [
        (b"same", "http://b.test/1", None),
        (b"", "http://b.test/3", "http://b.test/1"),
        (b"<p>page 9", "http://a.test/9", None),
    ]
    assert warc_checks.complaints(path) == {}
    assert warc_checks.dangling([path]) == []
    pass_on_payloads([path], "http://b.test/1".__eq__, lambda *_: True)
    purge_warc(path, "http://b.test/1".__eq__, lambda _: True)
    bodies = [one.body for one in warc_checks.records(path) if one.kind == "response"]
    assert bodies == [b"same", b"<p>page 9"]
    assert warc_checks.complaints(path) == {}


def test_a_payload_does_not_go_to_a_304_which_has_no_header(tmp_path):
    payloads = StoredPayloads(directory=tmp_path, max_bytes=1 << 20)
    payloads.open()
    first, second = (warc_checks.page(n, body=b"same") for n in range(2))
    visit = warc_checks.page(1, body=b"", status=304, stored_at=second.fetched_at, fetched_at=2e9)
    values = {"payloads": payloads, "max_file_bytes": 2000}
    warc_checks.warc_of(tmp_path, first, (second, "content_seen"), (visit, "unchanged"), **values)
    payloads.close()
    *_, seen, visited = paths = sorted(tmp_path.glob("*.warc.gz"))
    assert len(paths) == 3
    covers = first.url.__eq__
    pass_on_payloads([visited], covers, lambda *_: True)  # there is no header for it
    pass_on_payloads([visited, *paths], covers, lambda *_: True)
    purge_warc(paths[0], covers, lambda _: True)
    kinds = [[one.kind for one in warc_checks.records(path)][1] for path in (seen, visited)]
    assert kinds == ["response", "revisit"]
    assert warc_checks.dangling(paths) == []
    assert [warc_checks.complaints(path) for path in (seen, visited)] == [{}] * 2


def test_a_delta_reports_the_documents_as_gone_and_the_log_keeps_no_facts(purged):
    told = [json.loads(line) for line in purged.gone.splitlines()]
    added = {url for url, change in state(purged.before)["delta"]}
    assert {one["url"] for one in told} == {url for url in added if host_of(url) == purged.host}
    assert {(one["change"], one["reason"]) for one in told} == {("gone", "purged")}
    said = warm.scrapy("why", purged.web.job, told[0]["url"]).stdout
    assert "scrapy purge" in said
    assert f"): purged: {told[0]['url']}\n" in said
    was, now = ((job / LOG).read_bytes().splitlines() for job in (purged.before, purged.web.job))
    assert [len(line) for line in was] == [len(line) for line in now[: len(was)]]
    mine = [line for line in now[: len(was)] if b'"host":"%b"' % purged.host.encode() in line]
    assert mine
    assert b'"content"' not in b"".join(mine)


def test_lines_of_other_files_are_dropped_also_from_compressed_ones(tmp_path):
    path = tmp_path / "text-000001.jsonl.gz"
    lines = [b'{"url":"http://a.test/%d","host":"a.test"}\n' % number for number in range(9)]
    path.write_bytes(gzip.compress(b"".join(lines) + b"http://a.test/1\n"))
    counts = []
    covers = {"http://a.test/1", "http://a.test/3"}.__contains__
    purge_lines(path, covers, lambda count: counts.append(count) or True)
    assert gzip.decompress(path.read_bytes()) == b"".join([lines[0], lines[2], *lines[4:]])
    assert counts == [3]


def test_a_damaged_warc_file_is_named_and_nothing_is_lost(purged, tmp_path):
    job = shutil.copytree(purged.before, tmp_path / "job")
    damaged = warcs(job)[1]
    damaged.write_bytes(damaged.read_bytes()[:-9])
    was = {path: path.read_bytes() for path in warcs(job)}
    assert f"{damaged} is damaged after byte" in refusal("purge", job, "--host", purged.host)
    assert {path: path.read_bytes() for path in warcs(job)} == was
    damaged.unlink()
    elsewhere = (job / "warc").rename(tmp_path / "elsewhere")
    linked = [path.rename(tmp_path / path.name) for path in elsewhere.glob("*.gz")]
    for path in linked:
        path.chmod(0o640)
        (elsewhere / path.name).symlink_to(path)
    (job / "purged.txt").write_text("other.test\nhttp://b.test/")  # an editor left out the end
    words = ("purge", job, "--host", purged.host, "-s", f"WARC_DIR={elsewhere}")
    assert warm.scrapy(*words).returncode == 0
    assert {path.stat().st_mode & 0o777 for path in linked} == {0o640}
    excluded = "other.test\nhttp://b.test/\n" + purged.host + "\n"
    assert (job / "purged.txt").read_text() == excluded
    left = [one for path in linked for one in warc_checks.records(path)]
    assert purged.host not in {host_of(one.headers.get("WARC-Target-URI", "")) for one in left}


def test_the_next_crawl_visits_all_hosts_but_the_purged_one(purged):
    visited = {host_of(url) for url in purged.asked}
    others = {host_of(url) for url in purged.after["nodes"]}
    assert purged.host not in visited
    assert others <= visited


def test_a_purge_says_what_it_removes_and_a_second_purge_finds_nothing(purged):
    before, host = purged.before, purged.host
    lines = [line for line in outcome_lines(before) if host_of(line.url) == host]
    pages = sum(line.outcome == "http_200" for line in lines)
    was = state(before)
    urls = [one.headers.get("WARC-Target-URI", "") for one in stored(before)]
    records, rows, indexed = (
        sum(count for url, count in Counter(found).items() if host_of(url) == host)
        for found in (urls, was["text"] + was["nodes"] + was["edges"], was["index"])
    )
    said, *rest = purged.done.stdout.splitlines()
    assert said == (
        f"{pages} pages of {host}: {records} WARC records, {rows} rows, {indexed} indexed pages, "
        f"{len(lines)} log lines removed"
    )
    assert purged.dry.stdout.splitlines() == [said.replace("removed", "to be removed"), *rest]
    assert purged.again.stdout.splitlines() == [f"0 pages of {host}: nothing removed", *rest]
    assert (purged.dry.returncode, purged.done.returncode, purged.again.returncode) == (0, 0, 1)
    logged = [
        json.loads(line) for line in (purged.web.job / "logs/purge.jsonl").read_text().splitlines()
    ]
    assert {"warc/*.warc.gz", "search/meta.json"} <= {line["what"] for line in logged}


def test_urls_of_a_list_are_purged_from_a_hive_and_excluded_and_the_rest_stays(purged, tmp_path):
    job = shutil.copytree(purged.before, tmp_path / "hive/drones/0")
    was = state(job)
    gone = sorted(was["nodes"])[::3]
    (tmp_path / "list").write_text("# asked by mail\n" + "\n".join(gone))
    command = ("purge", tmp_path / "hive", "--list", tmp_path / "list")
    done = warm.scrapy(*command)
    assert done.returncode == 2
    assert "hive/store has no hive.json: it is not mounted, or was emptied. So dr" in done.stderr
    CheckpointStore(url=str(tmp_path / "hive/store")).enter(FACTS, "")
    for _ in range(2):
        warm.scrapy(*command)
        (stored,) = (tmp_path / "hive/store/commands").glob("*.txt")
    assert stored.read_text().startswith("# asked by mail\n")
    assert set(state(job)["nodes"]) == set(was["nodes"]) - set(gone)
    assert set(state(job)["records"]) == was["records"] - set(gone)
    assert "scrapy purge" in warm.scrapy("why", job, gone[0]).stdout


def test_texts_of_pages_also_go_from_the_record_of_the_host(purged):
    texts = own_texts(purged.before, purged.host)
    assert holders(purged.before, texts)
    assert holders(purged.web.job, texts) == []
    assert "texts of up to 40 bytes in the records of a --url's host, and in kept checkpoints" in (
        purged.done.stdout
    )


@each(
    "number points",
    (signal.SIGKILL, [30]),
    (signal.SIGINT, [30, -200]),
    pytest.param(signal.SIGKILL, range(1, 110, 4), marks=pytest.mark.long),
    pytest.param(signal.SIGINT, range(-2000, 110, 57), marks=pytest.mark.long),
    ids=str,
)
def test_a_purge_that_is_stopped_is_completed_by_the_same_command(purged, tmp_path, number, points):
    stops = 0
    for point in points:
        job = shutil.copytree(purged.before, tmp_path / f"job{point}")
        words = ["--host", purged.host]
        command = [sys.executable, "-c", STOPPED, str(int(number)), str(point), str(job), *words]
        run = warm.run(command, env=os.environ)
        if run.returncode != 0:
            stops += 1
            said = "\npurge: stopped by Ctrl-C. Run the same command again to continue.\n"
            assert run.stderr == (said if number == signal.SIGINT else "")
        assert warm.scrapy("purge", job, *words).returncode in {0, 1}
        assert state(job) == purged.after, point
        assert holders(job, own_texts(purged.before, purged.host)) == []
        shutil.rmtree(job)
    assert stops > len(points) // 2


def test_warc_files_that_are_elsewhere_are_named_until_they_are_purged(purged, tmp_path):
    job = shutil.copytree(purged.before, tmp_path / "job")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    files = [path.rename(elsewhere / path.name) for path in warcs(job)]
    words = ("purge", job, "--host", purged.host)
    for option in ("--dry-run", "--host=a.test"):
        said = refusal(*words, option)
        number, name = MISSING.search(said).groups()
        assert 0 < int(number) <= len(files)  # the table does not know those of copies only
        assert (elsewhere / name).exists()
        assert "WARC_DIR=DIR" in said
    run = warm.scrapy(*words, "-s", f"WARC_DIR={elsewhere}")
    assert run.returncode == 0
    assert " pages of " in run.stdout
    assert "WARC records removed" in run.stdout
    lines = [line for line in outcome_lines(purged.before) if line.outcome == "http_200"]
    url = next(line.url for line in lines if host_of(line.url) == purged.host)
    why = warm.scrapy("why", job, url).stdout
    assert re.match(r" +It was purged 2.*\): scrapy purge has removed its page\.\n", why), why
    for path in files:
        path.rename(job / "warc" / path.name)
    assert state(job) == purged.after


@each("address", "192.0.2.9", "2001:db8::9", "[2001:db8::9]")
def test_an_address_without_pages_stands_for_no_name(purged, address):
    run = warm.scrapy("purge", purged.before, "--host", address, "--dry-run")
    assert run.returncode == 1
    assert run.stdout.splitlines()[1] == (
        f"{address.strip('[]')} stands for URLs with this address, not for names that lead to it"
    )


@pytest.mark.long
@pytest.mark.cures("is not complete. Stop the crawl; if it was killed, run its command again")
def test_a_crawl_that_runs_or_was_killed_is_refused(purged, tmp_path):
    """Its next run would have the texts of pages again, from the log of its host records."""
    with simulated(tmp_path, hosts=3) as web:
        crawl = web.start(ITEM_PIPELINES="{}")
        holder = f"JOBDIR {web.job} is in use by process {crawl.pid}: "
        assert refusal("purge", web.job, "--host", "a.test").startswith(f"purge: {holder}")
        with RecordsReader(path=web.job / "shards/00/hosts") as reader:
            wait_until(reader.has_log)
        kill(crawl)
        for words in ([], ["--dry-run"]):
            said = refusal("purge", web.job, "--host", "a.test", *words)
            assert "records.sqlite is not complete. Stop the crawl" in said
        assert (web.job / "purged.txt").read_text() == "a.test\n"  # for the run that completes it
        web.crawl(ITEM_PIPELINES="{}")
    assert warm.scrapy("purge", web.job, "--host", "a.test").returncode == 1
    (left := purged.before / "warc/x.warc.gz.open").touch()
    assert f"{left} is not complete" in refusal("purge", purged.before, "--host", "a.test")
    left.unlink()
    (purged.before / "text/x.parquet").touch()
    said = refusal("purge", purged.before, "--host", "a.test", "--dry-run")
    assert said.startswith(f"purge: {purged.before}/text/x.parquet: Parquet file size is 0 bytes")
    (purged.before / "text/x.parquet").unlink()
    assert "--url and a URL" in refusal("purge", purged.before)

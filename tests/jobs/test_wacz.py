"""CDXJ index and WACZ of a crawl, read by the tools of the formats' authors, and by pywb."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
import warm
from crash import die_between_lines
from crawling import run_crawl
from http_site import HttpSite, serving
from pywb_server import BIN, pywb_of
from warc_checks import page, records

from webcrawl.jobs.wacz.result import make, warc_files
from webcrawl.pipelines.warc.writer import WarcWriter

if TYPE_CHECKING:
    from pathlib import Path

WORDS = "".join(f"<p>Paragraph {number} of a document.</p>" for number in range(200))
HTML = f"<title>What is \n <b>pressed</b> &amp; sent</title>{WORDS}".encode()
LINKS = "".join(
    f"<a href='{path}'>{path}</a>"
    for path in ("/gzip", "/chunked", "/moved", "/one", "/two", "/image", "/none", "/a%20b?q=1&q=0")
)
#: What each path is answered with, byte for byte after transfer decoding.
SENT = {
    "/robots.txt": (200, {"Content-Type": "text/plain"}, b"User-agent: *\nDisallow: /private\n"),
    "/": (200, {}, f"<title>Home</title>{LINKS}".encode()),
    "/gzip": (200, {"Content-Encoding": "gzip"}, gzip.compress(HTML)),
    "/chunked": (200, {"Transfer-Encoding": "chunked"}, b"<p>in chunks</p>" + HTML),
    "/moved": (302, {"Location": "/one"}, b"<p>gone to one"),
    "/one": (200, {}, b"<title>Twins</title><p>a document under two URLs"),
    "/two": (200, {}, b"<title>Twins</title><p>a document under two URLs"),
    "/image": (200, {"Content-Type": "image/png"}, bytes(range(256)) * 64),
    "/none": (404, {}, b"<title>not here</title>"),
    "/a%20b?q=1&q=0": (200, {}, "<title>Größe</title>".encode("latin-1")),
}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """A crawl of a small site, in WARC files of 8 kB, with its WACZ: its directory and its site.
    Two of its documents are the same."""
    directory = tmp_path_factory.mktemp("crawl")
    seeds = directory / "seeds.txt"
    with serving(HttpSite(lambda request: SENT[request.path])) as site:
        seeds.write_text(f"{site.url}/\n")
        command = [sys.executable, "-m", "scrapy", "crawl", "web", "-a", f"seeds={seeds}"]
        settings = {
            "JOBDIR": directory / "job",
            "ALLOW_PRIVATE_ADDRESSES": 1,
            "POLITENESS_MIN_DELAY": 0.01,
            "POLITENESS_DELAY_FACTOR": 0,
            "WARC_MAX_FILE_BYTES": 8000,
        }
        for name, value in settings.items():
            command += ["-s", f"{name}={value}"]
        done = run_crawl(command)
        assert done.returncode == 0, done.stdout
    assert set(site.asked) == set(SENT)
    made = wacz(directory / "job", directory / "crawl.wacz")
    assert made.returncode == 0, made.stderr
    return directory, site.url


def wacz(*arguments):
    *inputs, output = arguments
    return warm.scrapy("wacz", *inputs, "-o", output)


def packed(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def captures_of(jobdir):
    """URL and 14-digit time of each answer that a job has stored."""
    for path in sorted((jobdir / "warc").glob("*.warc.gz")):
        for record in records(path):
            if record.kind in {"response", "revisit"}:
                date = "".join(filter(str.isdigit, record.headers["WARC-Date"]))[:14]
                yield record.headers["WARC-Target-URI"], date


def test_pywb_replays_every_answer_byte_for_byte(crawled, tmp_path):
    """Also of a document that is stored under another URL, by a revisit record."""
    directory, url = crawled
    found = dict(captures_of(directory / "job"))
    assert {target.removeprefix(url) for target in found} == set(SENT)
    with pywb_of(directory / "crawl.wacz", tmp_path) as pywb:
        for target, date in found.items():
            status, headers, body = pywb.replay(target, date)
            sent = SENT[target.removeprefix(url)]
            assert (status, body) == sent[::2], target
            for name in ("content-type", "content-encoding", "location"):
                said = {key.lower(): value for key, value in sent[1].items()}
                assert headers.get(name, "").endswith(said.get(name, "")), target


@pytest.mark.long
def test_wacz_is_valid(crawled):
    directory, _ = crawled
    command = [BIN / "wacz", "validate", "-f", directory / "crawl.wacz"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, "is valid" in done.stdout) == (0, True), done.stdout + done.stderr


def test_wacz_has_the_hashes_of_its_files_and_the_titles_of_its_pages(crawled):
    directory, url = crawled
    found = packed(directory / "crawl.wacz")
    description = json.loads(found["datapackage.json"])
    assert description["wacz_version"] == "1.1.1"
    hashes = {one["path"]: one["hash"] for one in description["resources"]}
    assert hashes == {
        name: f"sha256:{hashlib.sha256(data).hexdigest()}"
        for name, data in found.items()
        if "/" in name
    }
    for warc in warc_files([directory / "job"]):
        assert found[f"archive/{warc.name}"] == warc.read_bytes()
    header, *pages = map(json.loads, found["pages/pages.jsonl"].splitlines())
    assert header["format"] == "json-pages-1.0"
    titles = {one["url"].removeprefix(url): one.get("title") for one in pages}
    for path, title in {
        "/": "Home",
        "/gzip": "What is <b>pressed</b> & sent",
        "/a%20b?q=1&q=0": "Größe",
    }.items():
        assert titles[path] == title
    assert not {"/none", "/image", "/moved", "/robots.txt"} & titles.keys()


def test_index_is_that_of_cdxj_indexer(crawled):
    directory, _ = crawled
    made = wacz(directory / "job", directory / "crawl.cdxj")
    assert made.returncode == 0, made.stderr
    files = warc_files([directory / "job"])
    theirs = warm.run(
        [sys.executable, "-c", "from cdxj_indexer.main import main; main()", *map(str, files)]
    )
    index = (directory / "crawl.cdxj").read_text()
    assert len(files) > 1
    assert index.splitlines() == sorted(theirs.stdout.splitlines())
    assert gzip.decompress(packed(directory / "crawl.wacz")["indexes/index.cdx.gz"]) == (
        index.encode()
    )


def warc_of(directory, numbers):
    """A finished WARC file of pages with these numbers."""
    writer = WarcWriter(directory=directory, prefix="x", max_file_bytes=1 << 30, warcinfo=[])
    writer.open()
    for number in numbers:
        writer.write(page(number))
    writer.close()
    return next(iter(sorted(directory.glob("*.warc.gz"), reverse=True)))


def make_in(directory: Path) -> None:
    """For ``die_between_lines``."""
    make(warc_files([directory]), directory / "a.wacz", at=1e9, on_progress=lambda _: None)


def test_package_is_whole_or_not_there_whenever_the_process_is_killed(tmp_path):
    start = tmp_path / "start"
    warc_of(start, range(3))
    *killed, whole = die_between_lines("tests.jobs.test_wacz:make_in", start, tmp_path / "out")
    expected = (whole / "a.wacz").read_bytes()
    assert len(killed) > 5
    for left in killed:
        if (left / "a.wacz").exists():
            assert (left / "a.wacz").read_bytes() == expected
        make_in(left)
        assert (left / "a.wacz").read_bytes() == expected
        assert {path.name.partition(".")[2] for path in left.iterdir()} == {"warc.gz", "wacz"}


def test_damaged_file_is_packaged_as_far_as_it_can_be_read(tmp_path):
    warc = warc_of(tmp_path / "warc", range(5))
    with warc.open("r+b") as file:
        file.truncate(warc.stat().st_size - 100)
    made = wacz(tmp_path / "warc", tmp_path / "a.cdxj")
    assert made.returncode == 1
    assert f"wacz: {warc} is damaged behind byte" in made.stderr
    assert 4 <= len((tmp_path / "a.cdxj").read_text().splitlines()) <= 5
    assert not (tmp_path / "a.cdxj.work").exists()


def test_unusable_input_is_one_sentence(tmp_path):
    one, other = (warc_of(tmp_path / name, [1]) for name in ("one", "other"))
    other = other.rename(other.with_name(one.name))
    (tmp_path / "empty").mkdir()
    said = {
        "There is no finished WARC file in ": wacz(tmp_path / "empty", tmp_path / "a.wacz"),
        "have one name: rename one of them.": wacz(one, other, tmp_path / "a.wacz"),
        "say: scrapy wacz JOBDIR": wacz(one, tmp_path / "a.zip"),
    }
    for sentence, done in said.items():
        assert done.returncode == 2
        assert sentence in done.stdout + done.stderr

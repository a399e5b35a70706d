"""One crawl into WARC files: moved to S3, packaged as WACZ, read by others, replayed by pywb."""

import gzip
import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import zipfile

import pytest
import warm
from crawling import crawl_of_urls, damage_in, finish, stats_of
from fastwarc.warc import ArchiveIterator
from http_site import HttpSite, serving
from pywb_server import BIN, pywb_of
from s3_server import s3_options, s3_server
from warc_checks import complaints, records

from webcrawl.jobs.wacz.result import warc_files

WORDS = "".join(f"<p>Paragraph {number} of a document.</p>" for number in range(200))
HTML = f"<title>What is \n <b>pressed</b> &amp; sent</title>{WORDS}".encode()
LINKS = "".join(
    f"<a href='{path}'>{path}</a>"
    for path in ("/gzip", "/chunked", "/moved", "/one", "/two", "/image", "/none", "/a%20b?q=1&q=0")
)
#: What each path is answered with, byte for byte after transfer decoding.
SENT = {
    "/robots.txt": (
        *(200, {"Content-Type": "text/plain"}),
        b"User-agent: *\nAllow: /ch  # chunks\nAllow: /one\nAllow: /two\nAllow: /none\n",
    ),
    "/": (200, {}, f"<title>Home</title>{LINKS}".encode()),
    "/gzip": (200, {"Content-Encoding": "gzip"}, gzip.compress(HTML)),
    "/chunked": (200, {"Transfer-Encoding": "chunked"}, b"<p>in chunks</p>" + HTML),
    "/moved": (302, {"Location": "/one"}, b"<p>gone to one"),
    "/one": (200, {}, b"<title>Twins</title><p>a document under two URLs"),
    "/two": (200, {}, b"<title>Twins</title><p>a document under two URLs"),
    # Uploaded in several parts.
    "/image": (200, {"Content-Type": "image/png"}, os.urandom(5 << 20)),
    "/none": (404, {}, b"<title>not here</title>"),
    "/a%20b?q=1&q=0": (200, {}, "<title>Größe</title>".encode("latin-1")),
}

FAST = {"POLITENESS_MIN_DELAY": 0.01, "POLITENESS_DELAY_FACTOR": 0}
DATASET = json.dumps(
    {"webcrawl.pipelines.warc.WarcPipeline": 1, "webcrawl.pipelines.text.TextDataset": 2}
)
#: Where the WARC files are, beneath the directory of the crawl.
STORED = "s3/bucket/crawl"


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """A crawl of a small site, in WARC files of 8 kB, moved to S3, with their WACZ. Two of its
    documents are the same. Its directory, and the URL of its site."""
    directory = tmp_path_factory.mktemp("crawl")
    (directory / "s3/bucket").mkdir(parents=True)
    site = HttpSite(lambda request: SENT[request.path])
    with s3_server(directory / "s3") as s3, serving(site):
        settings = {
            **FAST,
            "WARC_MAX_FILE_BYTES": 8000,
            "OUTPUT_STORE": "s3://bucket/crawl",
            "OUTPUT_STORE_OPTIONS": json.dumps(s3_options(s3.server_port)),
        }
        # Of s3fs, in earlier versions.
        old = settings | {"OUTPUT_STORE_OPTIONS": json.dumps({"key": "me"})}
        said = finish(crawl_of_urls(directory, f"{site.url}/", **old), code=2)
        assert "OUTPUT_STORE_OPTIONS: instead of key, use access_key_id." in said
        command = crawl_of_urls(directory, f"{site.url}/", **settings)
        done = warm.run(command)
        assert done.returncode == 0, done.stderr
    assert set(site.asked) == set(SENT)
    made = wacz(directory / STORED, directory / "crawl.wacz")
    assert made.returncode == 0, made.stderr
    (directory / "output").write_text(done.stdout + done.stderr)
    return directory, site.url


def wacz(*arguments):
    *inputs, output = arguments
    return warm.scrapy("wacz", *inputs, "-o", output)


def packed(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.cures("{}_OPTIONS: instead of {}, use {}")
def test_warc_files_are_in_s3_and_not_here(crawled):
    directory, _ = crawled
    stored = warc_files([directory / STORED])
    stats = stats_of(directory / "job")
    assert list((directory / "job/warc").glob("*.gz*")) == []
    assert len(stored) == stats["output_store/files"] == stats["warc/files"] > 1
    assert stats["output_store/bytes"] == sum(path.stat().st_size for path in stored)
    assert stats["output_store/bytes"] == stats["warc/bytes"] > 5 << 20
    assert (stats["output_store/pending"], stats["output_store/errors"]) == (0, 0)
    assert (
        f"     moved  {len(stored)} files to OUTPUT_STORE\n" in (directory / "output").read_text()
    )
    assert damage_in(directory / "job") == []
    assert complaints(stored[0]) == {}


def test_metadata_has_the_line_of_robots_txt_that_allows_a_page(crawled):
    directory, url = crawled
    stored = [one for path in warc_files([directory / STORED]) for one in records(path)]
    lines = {
        one.headers["WARC-Target-URI"].removeprefix(url): one.body.partition(b"robotsLine: ")[2]
        for one in stored
        if one.kind == "metadata" and b"robotsLine: " in one.body
    }
    assert {path: line.partition(b"\r\n")[0] for path, line in lines.items()} == {
        "/chunked": b"Allow: /ch",
        "/one": b"Allow: /one",
        "/two": b"Allow: /two",
        "/none": b"Allow: /none",
    }


def test_pywb_replays_every_answer_byte_for_byte(crawled, tmp_path):
    """Also of a document that is stored under another URL, by a revisit record."""
    directory, url = crawled
    stored = [one for path in warc_files([directory / STORED]) for one in records(path)]
    answers = [one for one in stored if one.kind in {"response", "revisit"}]
    assert {one.headers["WARC-Target-URI"].removeprefix(url) for one in answers} == set(SENT)
    assert "revisit" in {one.kind for one in answers}
    with pywb_of(tmp_path, directory / "crawl.wacz") as pywb:
        check_replay(pywb, answers, url)


def document_in(directory, row, url):
    """Return what the site at *url* sent for the record that *row* of a dataset names."""
    (path,) = directory.rglob(row["file_path"])
    start, length = row["warc_offset"], row["warc_length"]
    (record,) = ArchiveIterator(io.BytesIO(path.read_bytes()[start : start + length]))
    assert record.headers["WARC-Type"] == "response"
    return SENT[record.headers["WARC-Target-URI"].removeprefix(url)]


def check_replay(pywb, answers, url):
    """Check that *pywb* shows the records *answers* as the site at *url* sent them."""
    for one in answers:
        target = one.headers["WARC-Target-URI"]
        date = "".join(filter(str.isdigit, one.headers["WARC-Date"]))[:14]
        status, headers, body = pywb.replay(target, date)
        sent = SENT[target.removeprefix(url)]
        assert (status, body) == sent[::2], target
        for name in ("content-type", "content-encoding", "location"):
            said = {key.lower(): value for key, value in sent[1].items()}
            assert headers.get(name, "").endswith(said.get(name, "")), target


def test_pywb_replays_a_crawl_whose_documents_are_in_an_earlier_one(crawled, tmp_path):
    directory, url = crawled
    index = tmp_path / "crawl.cdxj.gz"
    index.write_bytes(packed(directory / "crawl.wacz")["indexes/index.cdx.gz"])
    site = HttpSite(lambda request: SENT[request.path])
    with serving(site):
        settings = {**FAST, "WARC_DEDUP_FROM": index, "TEXT_FORMAT": "jsonl"}
        finish(crawl_of_urls(tmp_path, f"{site.url}/", ITEM_PIPELINES=DATASET, **settings))
    (path,) = warc_files([tmp_path / "job"])
    answers = [one for one in records(path) if one.kind in {"response", "revisit"}]
    kinds = {one.headers["WARC-Target-URI"].removeprefix(site.url): one.kind for one in answers}
    whole = {"/robots.txt", "/moved", "/none"}
    assert kinds == {name: "response" if name in whole else "revisit" for name in SENT}
    assert stats_of(tmp_path / "job")["warc/revisits"] == len(SENT) - len(whole)
    assert path.stat().st_size < 50_000
    assert complaints(path) == {}
    rows = (tmp_path / "job/text/text.jsonl").read_text().splitlines()
    assert len(rows) >= 4
    for row in map(json.loads, rows):
        sent = SENT[row["url"].removeprefix(site.url)]
        assert document_in(directory / STORED, row, url) == sent

    first = (directory / "crawl.wacz").read_bytes()
    (tmp_path / "crawl.wacz").write_bytes(first)
    made = wacz(tmp_path / "job", tmp_path / "second.wacz")
    assert "documents may be in crawl.wacz: keep the files together." in made.stdout
    second = packed(tmp_path / "second.wacz")
    assert json.loads(second["datapackage.json"])["relation"]["requires"] == [
        {
            "filename": "crawl.wacz",
            "hash": hashlib.sha256(first).hexdigest(),
            "size": len(first),
        }
    ]
    assert f'"{site.url}/gzip"'.encode() in second["pages/pages.jsonl"]
    with pywb_of(tmp_path, tmp_path / "crawl.wacz", tmp_path / "second.wacz") as pywb:
        check_replay(pywb, answers, site.url)


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
    for warc in warc_files([directory / STORED]):
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


def test_replaywebpage_finds_the_files_of_a_package(crawled):
    """It expects an extra field in both headers of an entry, or in neither."""
    directory, _ = crawled
    with zipfile.ZipFile(directory / "crawl.wacz") as archive, archive.fp as file:
        for entry in archive.infolist():
            file.seek(entry.header_offset)
            (size,) = struct.unpack("<H", file.read(30)[28:])
            assert bool(size) == bool(entry.extra), entry.filename


def test_index_is_that_of_cdxj_indexer(crawled):
    directory, _ = crawled
    made = wacz(directory / STORED, directory / "crawl.cdxj")
    assert made.returncode == 0, made.stderr
    files = warc_files([directory / STORED])
    theirs = warm.run(
        [sys.executable, "-c", "from cdxj_indexer.main import main; main()", *map(str, files)]
    )
    index = (directory / "crawl.cdxj").read_text()
    assert len(files) > 1
    assert index.splitlines() == sorted(theirs.stdout.splitlines())
    assert gzip.decompress(packed(directory / "crawl.wacz")["indexes/index.cdx.gz"]) == (
        index.encode()
    )


def test_a_crawl_asks_for_the_codings_that_its_headers_name(tmp_path):
    asked = []

    def answer(request):
        asked.append((request.path, request.headers["Accept-Encoding"]))
        return 200, {}, b"<p>a page"

    with serving(HttpSite(answer)) as site:
        headers = json.dumps({"Accept": "text/html", "Accept-Encoding": "gzip"})
        url = f"{site.url}/"
        done = warm.run(crawl_of_urls(tmp_path, url, DEFAULT_REQUEST_HEADERS=headers))
    assert done.returncode == 0, done.stderr
    assert asked == [("/robots.txt", "gzip"), ("/", "gzip")]

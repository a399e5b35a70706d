"""OUTPUT_STORE: finished files move to a directory, to memory, to an S3-compatible server."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import time
from typing import TYPE_CHECKING

import fsspec
import pytest
import warm
from crash import die_between_lines
from crawling import damage_in, stats_of, wait_until
from http_site import HttpSite, serving
from s3_server import s3_options, s3_server
from scrapy.utils.test import get_crawler
from warc_checks import complaints, records

from webcrawl.errors import FatalError
from webcrawl.extensions.output_store import FileMover, OutputFiles, OutputStore
from webcrawl.storage.file_store import FileStore

if TYPE_CHECKING:
    from pathlib import Path

LOGGER = "webcrawl.extensions.output_store"


def mover_of(jobdir, url, folder="", **options):
    files = OutputFiles(warc=jobdir / "warc", jobdir=jobdir, folder=folder)
    return FileMover(store=FileStore(url, options), files=files)


def fill(jobdir, **files):
    """Files of a job, by path."""
    for path, data in files.items():
        (jobdir / path).parent.mkdir(parents=True, exist_ok=True)
        (jobdir / path).write_bytes(data)


def left_in(jobdir):
    return {str(path.relative_to(jobdir)) for path in jobdir.rglob("*") if path.is_file()}


def test_crawl_moves_its_files_to_s3(jobdir, tmp_path):
    (tmp_path / "s3/bucket").mkdir(parents=True)
    links = "".join(f"<a href='/{number}'>x</a>" for number in range(12))
    page = f"{links}{os.urandom(500).hex()}".encode()
    big = os.urandom(5 << 20)  # a file of several parts
    seeds = tmp_path / "seeds.txt"
    site = HttpSite(
        lambda asked: (200, {}, big if asked.path == "/0" else asked.path.encode() + page)
    )
    with s3_server(tmp_path / "s3") as server, serving(site):
        seeds.write_text(f"{site.url}/\n")
        settings = {
            "JOBDIR": jobdir,
            "OUTPUT_STORE": "s3://bucket/crawl",
            "OUTPUT_STORE_OPTIONS": json.dumps(s3_options(server.server_port)),
            "EXTENSIONS": json.dumps({"s3_server.KnownS3": -1}),
            "WARC_MAX_FILE_BYTES": 4000,
            "ALLOW_PRIVATE_ADDRESSES": 1,
            "POLITENESS_MIN_DELAY": 0.01,
            "POLITENESS_DELAY_FACTOR": 0,
        }
        command = [sys.executable, "-m", "scrapy", "crawl", "web", "-a", f"seeds={seeds}"]
        for name, value in settings.items():
            command += ["-s", f"{name}={value}"]
        path = os.pathsep.join(map(str, sys.path))
        done = warm.run(command, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    stored = sorted((tmp_path / "s3/bucket/crawl/warc").iterdir())
    stats = stats_of(jobdir)
    assert list((jobdir / "warc").iterdir()) == []
    assert len(stored) == stats["output_store/files"] == stats["warc/files"] > 2
    assert stats["output_store/bytes"] == sum(path.stat().st_size for path in stored) > 5 << 20
    assert (stats["output_store/pending"], stats["output_store/errors"]) == (0, 0)
    targets = {
        record.headers["WARC-Target-URI"]
        for path in stored
        for record in records(path)
        if record.kind == "response"
    }
    assert targets >= {f"{site.url}/{number}" for number in range(12)}
    assert complaints(stored[0]) == {}
    assert damage_in(jobdir) == []


def test_finished_files_are_moved_and_no_others(jobdir):
    fill(
        jobdir,
        **{
            "warc/a.warc.gz": b"a",
            "warc/b.warc.gz.open": b"b",
            "graph/edges/part-1.parquet": b"edges",
            "graph/edges/part-2.parquet.open": b"more",
            "graph/edges/part-2.spool.open": b"more",
            "shards/00/x.parquet": b"not of a module",
            "stats.json": b"{}",
        },
    )
    store = fsspec.filesystem("memory")
    mover = mover_of(jobdir, "memory://crawl", "machine-0/")
    mover.start()
    assert mover.finish(10) == 0
    assert {path: store.cat_file(path) for path in store.find("/crawl")} == {
        "/crawl/machine-0/warc/a.warc.gz": b"a",
        "/crawl/machine-0/graph/edges/part-1.parquet": b"edges",
    }
    store.rm("/crawl", recursive=True)
    assert left_in(jobdir) == {
        *("warc/b.warc.gz.open", "graph/edges/part-2.parquet.open"),
        *("graph/edges/part-2.spool.open", "shards/00/x.parquet", "stats.json"),
    }
    assert mover.counts() == {
        "output_store/files": 2,
        "output_store/bytes": 6,
        "output_store/errors": 0,
        "output_store/pending": 0,
    }


def test_store_that_cannot_be_used_is_one_line_and_files_move_when_it_can(jobdir, tmp_path, caplog):
    store = tmp_path / "store"
    store.write_bytes(b"a file where a directory should be")
    fill(jobdir, **{"warc/a.warc.gz": b"a", "warc/b.warc.gz": b"b"})
    mover = mover_of(jobdir, f"file://{store}")
    with caplog.at_level(logging.INFO, LOGGER):
        mover.start()
        wait_until(lambda: mover.counts()["output_store/errors"] >= 2)
        assert left_in(jobdir) == {"warc/a.warc.gz", "warc/b.warc.gz"}
        assert mover.counts()["output_store/pending"] == 2
        store.unlink()
        assert mover.finish(20) == 0
    assert left_in(jobdir) == set()
    assert {path.read_bytes() for path in (store / "warc").iterdir()} == {b"a", b"b"}
    cannot, again = [record.getMessage() for record in caplog.records]
    assert cannot.startswith(f"OUTPUT_STORE {store} cannot be used: Not a directory; ")
    assert again == f"OUTPUT_STORE {store} can be used again"


def test_end_of_a_crawl_does_not_wait_for_a_store_that_hangs(jobdir):
    fill(jobdir, **{"warc/a.warc.gz": b"a"})
    with socket.create_server(("127.0.0.1", 0)) as mute:
        mover = mover_of(jobdir, f"webhdfs://127.0.0.1:{mute.getsockname()[1]}/crawl")
        mover.start()
        began = time.monotonic()
        assert mover.finish(0.2) == 1
        assert time.monotonic() - began < 5
    mover._thread.join()
    assert left_in(jobdir) == {"warc/a.warc.gz"}


def store_all(directory: Path) -> None:
    """For ``die_between_lines``."""
    mover_of(directory / "job", str(directory / "store"))._move_all()


def test_a_file_is_whole_here_or_there_whenever_the_process_is_killed(tmp_path):
    data = os.urandom(3000)
    fill(tmp_path / "start/job", **{"warc/a.warc.gz": data, "warc/b.warc.gz": data})
    action = "tests.extensions.test_output_store:store_all"
    killed = die_between_lines(action, tmp_path / "start", tmp_path / "out")
    assert len(killed) > 6
    for left in killed:
        for name in ("warc/a.warc.gz", "warc/b.warc.gz"):
            here, there = left / "job" / name, left / "store" / name
            assert there.exists() or here.exists()
            assert all(path.read_bytes() == data for path in (here, there) if path.exists())
        store_all(left)
        assert left_in(left) == {"store/warc/a.warc.gz", "store/warc/b.warc.gz"}


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("nowhere://x", "OUTPUT_STORE cannot be used: Protocol not known: nowhere."),
        ("gs://x", "OUTPUT_STORE cannot be used: Please install gcsfs"),
    ],
)
def test_store_that_cannot_be_is_one_sentence(jobdir, url, sentence):
    crawler = get_crawler(settings_dict={"JOBDIR": str(jobdir), "OUTPUT_STORE": url})
    with pytest.raises(FatalError) as caught:
        OutputStore.from_crawler(crawler)
    assert str(caught.value).startswith(sentence)

"""OUTPUT_STORE: finished files move to a directory, or to memory. To S3: crawls/test_archive.py."""

import logging
import os
import socket

import pytest
from crash import die_between_lines
from crawling import wait_until
from published_shard import objects_in_bucket, url_of
from s3_server import s3_options
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler
from text_tables import cases

from webcrawl.errors import FatalError
from webcrawl.extensions.output_store import FileMover, OutputStore
from webcrawl.storage.object_store import ObjectStore, moved_file_notices

LOGGER = "webcrawl.extensions.output_store"
AT = "20261122000000000-00000"
A, B = f"warc/a-{AT}.warc.gz", f"warc/b-{AT}.warc.gz"


def mover_of(jobdir, url, hive="", **options):
    store = ObjectStore(url, setting="OUTPUT_STORE", options=options)
    settings = Settings({"JOBDIR": str(jobdir), "WARC_DIR": None, "HIVE": hive})
    return FileMover(store=store, settings=settings)


def fill(jobdir, **files):
    """Files of a job, by path."""
    for path, data in files.items():
        (jobdir / path).parent.mkdir(parents=True, exist_ok=True)
        (jobdir / path).write_bytes(data)


def left_in(jobdir):
    """But for the notes of what was moved."""
    files = {path for path in jobdir.rglob("*") if path.is_file() and path.name != "MOVED"}
    return {str(path.relative_to(jobdir)) for path in files}


def test_finished_files_are_moved_and_no_others(jobdir, monkeypatch):
    fill(
        jobdir,
        **{
            A: b"a",
            f"{B}.open": b"b",
            f"graph/edges/part-{AT}.parquet": b"edges",
            "graph/edges/part-2.parquet.open": b"more",
            "graph/edges/part-2.spool.open": b"more",
            "shards/00/x.parquet": b"not of a module",
            "graph/hosts.parquet": b"of a command",
            "words/words.parquet": b"of a module of a user",
            "stats.json": b"{}",
        },
    )
    url = url_of("memory", jobdir, monkeypatch)
    mover = mover_of(jobdir, url, "a hive")
    folder = f"{socket.gethostname()}-{jobdir.name}"
    mover.start()
    assert mover.finish(10) == 0
    assert objects_in_bucket(jobdir) == {
        f"a/store/{folder}/{A}": b"a",
        f"a/store/{folder}/graph/edges/part-{AT}.parquet": b"edges",
    }
    assert left_in(jobdir) == {
        *(f"{B}.open", "graph/edges/part-2.parquet.open", "graph/edges/part-2.spool.open"),
        *("shards/00/x.parquet", "stats.json", "graph/hosts.parquet", "words/words.parquet"),
    }
    (said,) = moved_file_notices([jobdir / "warc", jobdir / "graph"])
    assert said.startswith(f"files of {jobdir}/warc were moved to {url} (OUTPUT_STORE)")
    assert mover.counts() == {
        "output_store/files": 2,
        "output_store/bytes": 6,
        "output_store/errors": 0,
        "output_store/pending": 0,
    }


def test_store_that_cannot_be_used_is_one_line_and_files_move_when_it_can(jobdir, tmp_path, caplog):
    store = tmp_path / "store"
    store.write_bytes(b"a file where a directory should be")
    fill(
        jobdir,
        **{A: b"a", B: b"b"},
    )
    mover = mover_of(jobdir, f"file://{store}")
    with caplog.at_level(logging.INFO, LOGGER):
        mover.start()
        wait_until(lambda: mover.counts()["output_store/errors"] >= 2)
        assert left_in(jobdir) == {
            A,
            B,
        }
        assert mover.counts()["output_store/pending"] == 2
        store.unlink()
        assert mover.finish(20) == 0
    assert left_in(jobdir) == set()
    assert {path.read_bytes() for path in (store / "warc").iterdir()} == {b"a", b"b"}
    cannot, again = [record.getMessage() for record in caplog.records]
    assert cannot.startswith(f"OUTPUT_STORE {store} cannot be used: Not a directory; ")
    assert again == f"OUTPUT_STORE {store} can be used again"


def test_end_of_a_crawl_does_not_wait_for_a_store_that_hangs(jobdir):
    fill(jobdir, **{A: b"a"})
    with socket.create_server(("127.0.0.1", 0)) as mute:
        options = s3_options(mute.getsockname()[1]) | {"retry_config": {"max_retries": 0}}
        mover = mover_of(jobdir, "s3://bucket/crawl", **options)
        mover.start()
        assert mover.finish(0.2) == 1
        assert mover._thread.is_alive()
    mover._thread.join()
    assert left_in(jobdir) == {A}


def test_file_that_is_in_the_store_already_is_not_deleted(jobdir):
    fill(jobdir, **{A: b"a"})
    mover = mover_of(jobdir, str(jobdir))
    mover._move_all()
    assert left_in(jobdir) == {A}
    crawler = get_crawler(settings_dict={"JOBDIR": str(jobdir), "OUTPUT_STORE": f"{jobdir}/store"})
    with pytest.raises(FatalError, match="is inside JOBDIR: choose a place outside it"):
        OutputStore.from_crawler(crawler)


def store_all(directory):
    """For ``die_between_lines``."""
    mover_of(directory / "job", str(directory / "store"))._move_all()


def test_a_file_is_whole_here_or_there_whenever_the_process_is_killed(tmp_path):
    data = os.urandom(3000)
    fill(
        tmp_path / "start/job",
        **{
            A: data,
            B: data,
        },
    )
    action = "tests.extensions.test_output_store:store_all"
    killed = die_between_lines(action, tmp_path / "start", tmp_path / "out")
    assert len(killed) > 6
    for left in killed:
        for name in (
            A,
            B,
        ):
            here, there = left / "job" / name, left / "store" / name
            assert there.exists() or here.exists()
            assert all(path.read_bytes() == data for path in (here, there) if path.exists())
        store_all(left)
        assert left_in(left) == {
            f"store/{A}",
            f"store/{B}",
        }


@cases(
    "url sentence",
    """
        nowhere://x | OUTPUT_STORE nowhere://x must be a directory, or a URL of S3 (s3://), Google
        az://x      | OUTPUT_STORE az://x cannot be used: Generic MicrosoftAzure error: Account must
    """,
)
def test_store_that_cannot_be_is_one_sentence(jobdir, url, sentence):
    crawler = get_crawler(settings_dict={"JOBDIR": str(jobdir), "OUTPUT_STORE": url})
    with pytest.raises(FatalError) as caught:
        OutputStore.from_crawler(crawler)
    assert str(caught.value).startswith(sentence)

"""Every log that a crawl writes is in files of bounded size, all of which can be read."""

import asyncio
import json
import logging
from types import SimpleNamespace

from scrapy import signals
from scrapy.settings import Settings
from scrapy.utils.log import _get_handler
from scrapy.utils.test import get_crawler
from twisted.python.failure import Failure

from webcrawl.doctor.diagnosis import Cause, Diagnosis
from webcrawl.doctor.record import Record
from webcrawl.extensions import critical_errors, stats_file
from webcrawl.states import State
from webcrawl.storage.line_log import numbered_files

SIZE = 5000


def lines_of(path):
    """What is in all files of the log at *path*, none of which is larger than it should be."""
    files = [*numbered_files(path), path]
    assert len(files) > 2
    texts = [file.read_bytes() for file in files]
    assert all(SIZE <= len(text) < 2 * SIZE for text in texts[:-1])
    return [json.loads(line) for text in texts for line in text.splitlines()]


def test_the_log_of_diagnoses_turns_over(jobdir, monkeypatch):
    monkeypatch.setattr(stats_file, "_DIAGNOSES_FILE_BYTES", SIZE)
    diagnosis = Diagnosis(Cause.POLITENESS, 0.0, "x" * 1000)
    records = [
        Record(state=State("running"), diagnosis=diagnosis, waiting=number) for number in range(13)
    ]
    # All of a process that the extension looks at.
    doctor = SimpleNamespace(record=iter(records).__next__)
    process = SimpleNamespace(health=SimpleNamespace(doctor=doctor))
    monkeypatch.setattr(stats_file, "process_of", lambda _: process)

    async def write():
        crawler = get_crawler(settings_dict={"JOBDIR": str(jobdir), "STATS_FILE_INTERVAL_SECS": 0})
        extension = stats_file.StatsFile.from_crawler(crawler)
        for _ in records:
            extension.record()
            await extension.write_last()

    asyncio.run(write())
    lines = lines_of(jobdir / "logs/stats.jsonl")
    assert [line["doctor"].get("waiting", 0) for line in lines] == [*range(13)]


def test_the_log_of_critical_errors_turns_over_and_has_a_bound(jobdir, monkeypatch):
    monkeypatch.setattr(critical_errors, "_LOG_FILE_BYTES", SIZE)
    settings = {"JOBDIR": str(jobdir), "BREAKER_MAX_ERRORS": 0}
    crawler = get_crawler(settings_dict=settings)
    extension = critical_errors.CriticalErrors.from_crawler(crawler)
    for number in range(150):
        failure = Failure(ValueError(f"{number}" * 500))
        crawler.signals.send_catch_log(signals.item_error, item={}, response=None, failure=failure)
    crawler.signals.send_catch_log(signals.engine_stopped)
    assert extension is not None
    messages = [line["message"] for line in lines_of(jobdir / "logs/critical.jsonl")]
    # So many of a kind; the others are counted.
    assert [message[:3] for message in messages[:3]] == ["000", "111", "222"]
    assert len(messages) == 100
    assert sum(crawler.stats.get_stats().values()) >= 150


def test_a_log_file_of_scrapys_can_be_turned_over_from_outside(tmp_path):
    """By copy and truncate, as logrotate does it: what comes after that begins the file."""
    path = tmp_path / "crawl.log"
    handler = _get_handler(Settings({"LOG_FILE": str(path)}))
    try:
        for message in ("before", "after"):
            handler.emit(logging.makeLogRecord({"msg": message, "levelname": "INFO"}))
            handler.flush()
            copied = path.read_text()
            if message == "before":
                path.write_bytes(b"")
    finally:
        handler.close()
    assert copied.endswith("after\n")
    assert not copied.startswith("\0")
    assert "before" not in copied

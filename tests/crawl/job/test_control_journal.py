"""The journal of commands: what is damaged in it is named."""

import re

import msgspec
import pytest
import warm
from crawling import damage_in, finish, simulated

from webcrawl.crawl.job.control_journal import Change, Journal, encode
from webcrawl.errors import FatalError

PAUSE = Change(name="pause", reason="two\nlines", origin="me", at=1.5, n=1, state_key="pause")
SLOWER = Change(name="slower", arguments={"host": "a.test"}, at=2.5, n=2, state_key="pace a.test")


@pytest.fixture
def journal(tmp_path):
    (tmp_path / "logs").mkdir()
    return Journal(tmp_path)


def test_a_bit_that_flips_is_named_with_its_line(journal, tmp_path):
    path = tmp_path / "logs/control.jsonl"
    journal.append(PAUSE)
    journal.append(SLOWER)
    data = path.read_bytes()
    for at in range(len(data) - 1):  # without the last line's end it is torn
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        path.write_bytes(flipped)
        line = data.count(b"\n", 0, at) + 1
        with pytest.raises(FatalError, match=rf"control.jsonl, line {line}, cannot be read"):
            Journal(tmp_path).read()


def test_lines_of_earlier_versions_have_no_checksum(journal, tmp_path):
    lines = [msgspec.json.encode(PAUSE), encode(SLOWER), b""]
    (tmp_path / "logs/control.jsonl").write_bytes(b"\n".join(lines))
    journal.read()
    assert [*journal.in_force.values()] == [PAUSE, SLOWER]


def test_a_reason_with_a_line_break_is_told_in_one_line():
    assert PAUSE.as_sentence == "pause, 1970-01-01 00:00:01 UTC, by me (two lines)"


def test_who_reads_a_job_names_the_line(tmp_path):
    with simulated(tmp_path, hosts=2, max_pages=3) as web:
        web.crawl(STATISTICS_INTERVAL_SECS=0.2)
        journal = Journal(web.job)
        journal.append(PAUSE)
        journal.append(SLOWER)
        assert damage_in(web.job) == []
        path = web.job / "logs/control.jsonl"
        path.write_bytes(path.read_bytes().replace(b"a.test", b"b.test", 1))
        told = [
            finish(web.command(), code=2),
            *(
                warm.scrapy(*words).stderr
                for words in (
                    ("why", web.job, min(web.world.seeds())),
                    ("why", web.job),
                )
            ),
            warm.scrapy("job", "check", web.job).stdout,
        ]
        assert warm.scrapy("report", web.job).returncode == 0
        told.append((web.job / "report.html").read_text())
        assert [re.findall(r"logs/control.jsonl.*?line (\d)", one)[:1] for one in told] == [
            ["2"]
        ] * 5, told

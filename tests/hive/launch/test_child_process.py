"""Processes of a hive on one machine: those that die come back, a few times, and say why."""

import asyncio
import os
import re
import signal

import pytest
from text_tables import each

from webcrawl.hive.launch import child_process
from webcrawl.hive.launch.child_process import PERMANENT_ERRORS, ChildProcess


class Child:
    """A child that runs *script*, and what it has said."""

    def __init__(self, directory, script):
        self.said = []
        self.log = directory / "logs" / "drone.log"
        self.marks = directory / "marks"
        self.process = ChildProcess(
            name="drone 0",
            command=["sh", "-c", f"echo >> $0; {script}", str(self.marks)],
            log=self.log,
            say=self.said.append,
        )

    @property
    def starts(self):
        return len(self.marks.read_text())

    async def until_it_runs(self):
        while self.process.pid is None or not self.marks.exists():  # noqa: ASYNC110  # by the system
            await asyncio.sleep(0.01)


@pytest.fixture
def child(tmp_path, monkeypatch):
    monkeypatch.setattr(child_process, "_FIRST_WAIT_SECS", 0.01)
    monkeypatch.setattr(child_process, "_UNREACHABLE_SECS", 0.1)
    return lambda script: Child(tmp_path, script)


async def test_a_drone_that_dies_is_named_and_started_again(child):
    one = child("[ $(wc -l < $0) -gt 1 ] || kill -9 $$")
    assert await one.process.run() == 0
    assert one.starts == 2
    assert one.said == ["drone 0 died (killed by SIGKILL): restarting in 0 s (restart 1 of 5)"]


async def test_a_drone_that_dies_six_times_is_given_up(child):
    one = child("exit 1")
    assert await one.process.run() == 1
    assert one.starts == 6
    assert (
        one.said[-1] == f"drone 0 died again (exit code 1) and will not be restarted; see {one.log}"
    )


@each("code", 2, 3, 4)
async def test_an_end_that_would_come_again_is_the_last(child, code):
    one = child(f"echo 'webcrawl: There is no seed.' >&2; exit {code}")
    assert await one.process.run() == code
    assert one.starts == 1
    assert one.said == ["drone 0: There is no seed."]


async def test_a_drone_without_network_has_ended_and_its_hive_has_not(child):
    one = child("exit 5")
    assert await one.process.run() == 5
    assert (one.starts, one.said) == (1, [])
    assert 5 not in PERMANENT_ERRORS


async def test_a_drone_whose_redis_is_away_is_started_again_until_it_answers(child):
    one = child("[ $(wc -l < $0) -gt 7 ] || exit 6")
    assert await one.process.run() == 0
    assert one.starts == 8
    assert {*one.said} == {"drone 0 died (exit code 6): restarting in 0 s until Redis answers"}


async def test_a_usage_error_is_passed_on_and_nothing_is_said_twice(child):
    one = child(f"echo 'scrapy: error: no spider x\n{TIME} [a] ERROR: b\nwebcrawl: b'; exit 2")
    assert await one.process.run() == 2
    assert one.said == ["drone 0: no spider x", "drone 0: b"]


async def test_a_drone_that_cannot_be_started_is_given_up(child):
    one = child("exit 0")
    one.log.parent.write_text("a file in the place of a directory")
    assert await one.process.run() == 1
    assert one.said[0].startswith("drone 0 died (cannot be started: [Errno 17] File exists: ")
    assert one.said[-1].startswith("drone 0 died again (cannot be started: ")


async def test_stopped_it_ends_in_its_own_time_and_does_not_come_back(child):
    one = child("trap 'exit 0' TERM; echo >> $0; while :; do sleep 0.05; done")
    running = asyncio.create_task(one.process.run())
    while not one.marks.exists() or one.starts < 2:  # noqa: ASYNC110  # the second: with the trap
        await asyncio.sleep(0.01)
    one.process.stop()
    assert await running == 0
    assert (one.starts, one.said) == (2, [])


async def test_stopped_while_it_waits_to_start_again_it_stays_away(child):
    one = child("exit 1")
    running = asyncio.create_task(one.process.run())
    while len(one.said) < 3:  # noqa: ASYNC110  # so often has it died
        await asyncio.sleep(0.001)
    one.process.stop()
    assert await running == 0
    assert one.starts == 3


async def test_a_signal_at_the_terminal_does_not_reach_a_drone(child):
    one = child("exec sleep 60")
    running = asyncio.create_task(one.process.run())
    await one.until_it_runs()
    assert os.getpgid(one.process.pid) == one.process.pid
    one.process.stop(signal.SIGKILL)
    assert await running == 1


@each("log", "LOG", "JSON_LOG")
async def test_warnings_are_passed_on(child, log):
    one = child("cat >&2 <<'END'\n" + globals()[log] + "END\n")
    assert await one.process.run() == 0
    assert one.said == [
        *(f"drone 0: robots.txt {number}" for number in range(5)),
        f"drone 0: 2 more in {one.log}",
    ]


TIME = "2026-11-21 23:56:29"
LOG = (
    f"{TIME} [webcrawl] INFO: 0:00:10 50 pages (5/s), 0 given up\n"
    f"{TIME} [webcrawl] INFO: 0:00:20 90 pages (4/s), 0 given up\n"
    f"{TIME} [webcrawl] INFO: Spider opened\n"
    + "".join(f"{TIME} [webcrawl.hosts] WARNING: robots.txt {number}\n" for number in range(6))
    + f"{TIME} [scrapy.core.scraper] ERROR: a callback raised\nTraceback (most recent call last):\n"
)
# The same with LOG_JSON.
JSON_LOG = re.sub(
    r"(\S+) (\S+) \[(.+)\] (\w+): (.+)",
    r'{"time": "\1T\2.789+00:00", "level": "\4", "logger": "\3", "message": "\5"}',
    LOG,
)


async def test_warnings_of_an_earlier_run_are_not_shown_again(child, tmp_path):
    log = tmp_path / "logs" / "drone.log"
    log.parent.mkdir()
    log.write_text("webcrawl: old.\n")
    one = child("echo 'webcrawl: new.' >&2")
    one.process.read_log()  # before it has started
    await one.process.run()
    assert one.said == ["drone 0: new."]
    assert one.log.read_text() == "webcrawl: old.\nwebcrawl: new.\n"


async def test_a_line_without_end_is_passed_over(child):
    one = child("head -c 300000 /dev/zero | tr '\\0' x; echo; echo 'webcrawl: after it.'")
    running = asyncio.create_task(one.process.run())
    while not one.said:
        one.process.read_log()
        await asyncio.sleep(0.01)
    await running
    assert one.said == ["drone 0: after it."]

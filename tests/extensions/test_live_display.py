"""The live display, in real crawls on pseudo-terminals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager

import pytest
import warm
from crawling import ROOT, simulated
from terminal import Terminal

from webcrawl.extensions.live_display import paced

ROWS = ["doctor", "pages", "bytes", "hosts", "URLs", "errors", "job"]
PROGRESS = re.compile(r"\[webcrawl\] INFO: \d+:\d\d:\d\d ")
CHECKPOINT = re.compile(
    r"[-\d]+ [:\d]+ \[\S+checkpointer\] INFO: Checkpoint made: "
    r"\d+ ms in the reactor, [\d.]+ s in all "
)
COLOUR = re.compile(rb"\x1b\[[\d;]*3\d[\d;]*m")


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    """A simulated web that takes some seconds to crawl."""
    directory = tmp_path_factory.mktemp("web")
    with simulated(directory, hosts=16, mean_pages=8.0, max_pages=20) as simulation:
        yield simulation


@contextmanager
def crawl(web, job, terminal, *, env=(), **settings):
    """A crawl on *terminal*, with *settings* and variables *env* of its own."""
    command = web.command(
        job,
        STATISTICS_INTERVAL_SECS=0.3,
        CHECKPOINT_INTERVAL_SECS=0.5,
        POLITENESS_MIN_DELAY=0.2,
        **settings,
    )
    streams = {"stdin": subprocess.DEVNULL, "stdout": terminal.stream, "stderr": terminal.stream}
    variables = {"TERM": "xterm-256color", "PYTHONPATH": str(ROOT / "tests/rigs"), **dict(env)}
    with warm.Popen(command, cwd=ROOT, env={**os.environ, **variables}, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


def shown(terminal):
    """The display on *terminal*, when it has one: its rows by their names."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        lines = terminal.screen()
        if lines and lines[-1].startswith("job "):
            first = max(n for n, line in enumerate(lines) if line.startswith("doctor "))
            return dict(re.match(r"(\w*) +(.*)", line).groups() for line in lines[first:])
    raise AssertionError(terminal.text())


def end(process, terminal):
    """The exit code of *process*; what it writes until then is read."""
    while process.poll() is None:
        terminal.read()
    terminal.read()
    return process.returncode


def is_clean(terminal):
    """Whether nothing of a display is left on *terminal*, which is as it was before."""
    left = [line for line in terminal.screen() if line.split(" ")[0] in ROWS[:1]]
    return left == [] and not terminal.cursor.hidden and terminal.cursor.x == 0


def test_the_crawl_is_shown_below_its_log_until_its_end(web, tmp_path):
    with Terminal() as terminal, crawl(web, tmp_path / "job", terminal) as process:
        rows = shown(terminal)
        assert [name for name in rows if name] == ROWS
        assert re.match(r"\w[\w ]+ since \d\d:\d\d:\d\d: .+", rows["doctor"])
        assert re.fullmatch(r"[\d,]+ in 0:00:\d\d +\d+/s  [▁▂▃▄▅▆▇█]*", rows["pages"])
        assert re.fullmatch(r"[\d.]+k?B +[\d.]+k?B/s  [▁▂▃▄▅▆▇█]*", rows["bytes"])
        assert re.fullmatch(r"\d+ ready, \d+ resting, \d+ in process by \d+ workers", rows["hosts"])
        assert re.fullmatch(r"\d+ waiting, \d+ seen, \d+ parked, 0 due, \d+ given up", rows["URLs"])
        assert re.match(r"[\d.]+.B of disk free, [\d.]+MB of memory at most, \w+", rows["job"])
        assert COLOUR.search(terminal.written)
        assert end(process, terminal) == 0
        text = terminal.text()
        assert is_clean(terminal)
    starts = [found.start() for found in CHECKPOINT.finditer(text)]
    assert len(starts) >= 3
    assert not any(start % 80 for start in starts)
    assert "=== crawl summary ===" in text
    assert not PROGRESS.search(text)


def test_without_colours_and_with_a_log_file(web, tmp_path):
    log = tmp_path / "log"
    with Terminal(columns=120) as terminal:
        settings = {"LOG_FILE": log, "CLOSESPIDER_TIMEOUT": 3}
        with crawl(web, tmp_path / "job", terminal, env={"NO_COLOR": "1"}, **settings) as process:
            assert [name for name in shown(terminal) if name] == ROWS
            assert end(process, terminal) == 0
        assert not COLOUR.search(terminal.written)
        assert "Checkpoint" not in terminal.text()
    assert PROGRESS.search(log.read_text())


@pytest.mark.parametrize(
    ("columns", "term", "settings"),
    [(60, "xterm", {}), (80, "dumb", {"LIVE_DISPLAY": 1}), (80, "xterm", {"LIVE_DISPLAY": 0})],
)
def test_plain_lines(web, tmp_path, columns, term, settings):
    with Terminal(columns=columns) as terminal:
        settings |= {"CLOSESPIDER_TIMEOUT": 1}
        with crawl(web, tmp_path / "job", terminal, env={"TERM": term}, **settings) as process:
            assert end(process, terminal) == 0
        assert PROGRESS.search(terminal.text())
        assert b"\x1b" not in terminal.written


@pytest.mark.parametrize("signals", [1, 2])
def test_a_crawl_that_is_stopped_leaves_the_terminal_clean(web, tmp_path, signals):
    with Terminal() as terminal, crawl(web, tmp_path / "job", terminal) as process:
        shown(terminal)
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
            time.sleep(0.02)
        assert end(process, terminal) == 0
        assert is_clean(terminal)
        assert ("SIGINT twice" in terminal.text()) == (signals == 2)


def test_the_crawl_goes_on_when_the_terminal_is_gone(web, tmp_path):
    settings = {"CLOSESPIDER_TIMEOUT": 4}
    with Terminal() as terminal, crawl(web, tmp_path / "job", terminal, **settings) as process:
        shown(terminal)
        terminal.hang_up()
        assert process.wait(60) == 0
    assert '"finish_reason": "closespider_timeout"' in (tmp_path / "job" / "stats.json").read_text()


def test_nothing_that_is_printed_or_raised_commands_the_terminal(web, tmp_path):
    modules = '{"printing_module.PrintingModule": 1}'
    settings = {"ITEM_PIPELINES": modules, "CLOSESPIDER_TIMEOUT": 3, "MODULE_MAX_FAILURES": 0}
    with Terminal() as terminal, crawl(web, tmp_path / "job", terminal, **settings) as process:
        while "modules" not in (rows := shown(terminal)):
            pass
        assert re.fullmatch(r"printing_module.PrintingModule \d+", rows["modules"])
        assert end(process, terminal) == 0
        escaped = r"[bold]T\x1b[2J\x1b]0;x\x07\x9b1A[/none]"
        assert f"begun {escaped} done " in terminal.text()
        assert f"ValueError: {escaped} " in terminal.text()
        for control in (b"\x1b[2J", b"\x1b]", b"\x07", "\x9b".encode()):
            assert control not in terminal.written


def test_a_sparkline_ends_with_what_is_newest():
    counts = [(float(at), at * at) for at in range(1, 120)]
    assert paced("", counts, str, 9) == f"{'':20}{'228.0':>9}/s  {'█' * 9}"
    assert paced("", [(1.0, 5)], str, 9).endswith("0.0/s  ")

"""The terminal view, on a terminal and on a file."""

from __future__ import annotations

import io
import termios

import pytest
from terminal import Terminal

from webcrawl.hive.launch.terminal import TerminalView

TABLE = ["hive web", "drone 0  12 pages", "drone 1  15 pages"]


@pytest.fixture
def terminal():
    with Terminal(columns=30) as terminal:
        yield terminal


def test_the_table_is_drawn_over_and_messages_stay_above_it(terminal, clock):
    view = TerminalView(stream=terminal.stream, every=10, clock=clock)
    view.show(TABLE)
    view.show(TABLE[:2])
    view.say("drone 1 died")
    view.say("drone 1 started")
    view.show(TABLE)
    view.show([*TABLE, "all"])
    assert terminal.screen() == ["drone 1 died", "drone 1 started", *TABLE, "all"]


def test_lines_are_cut_to_the_terminal(terminal, clock):
    view = TerminalView(stream=terminal.stream, every=10, clock=clock)
    view.show(["hive", "drone 0  " + "x" * 50])
    view.show(["hive", "drone 0  " + "y" * 50])
    assert terminal.screen() == ["hive", "drone 0  " + "y" * 20]


def test_a_file_gets_the_table_now_and_then(clock):
    file = io.StringIO()
    view = TerminalView(stream=file, every=10, clock=clock)
    for _ in range(25):
        clock.advance(1)
        view.show(TABLE)
    view.say("stopping")
    assert file.getvalue() == ("\n".join(TABLE) + "\n") * 2 + "stopping\n"


@pytest.mark.parametrize("first", ["show", "say"])
def test_a_terminal_that_goes_away_ends_nothing(terminal, clock, first):
    view = TerminalView(stream=terminal.stream, every=10, clock=clock)
    view.show(TABLE)
    terminal.hang_up()
    for _ in range(3):
        clock.advance(100)
        if first == "say":
            view.say("drone 1 died")
        view.show(TABLE)


def test_a_low_terminal_has_the_first_lines_and_the_last(clock):
    with Terminal(columns=30, rows=4) as terminal:
        view = TerminalView(stream=terminal.stream, every=10, clock=clock)
        for _ in range(2):
            view.show([*TABLE, "drone 2  7 pages", "all  34 pages"])
        assert terminal.screen() == [*TABLE[:2], "all  34 pages"]


def test_lines_that_a_narrower_terminal_has_broken_are_erased_whole(terminal, clock):
    view = TerminalView(stream=terminal.stream, every=10, clock=clock)
    view.show(["hive", "drone 0  " + "x" * 20])
    terminal.resize(25, 24)
    view.say("resized")
    terminal.read()
    assert terminal.written.endswith(b"\x1b[3A\r\x1b[Jresized\r\n")


def test_a_stopped_terminal_is_not_waited_for(terminal, clock):
    view = TerminalView(stream=terminal.stream, every=10, clock=clock)
    termios.tcflow(terminal.stream, termios.TCOOFF)
    view.show(TABLE)
    termios.tcflow(terminal.stream, termios.TCOON)
    assert terminal.screen() == []
    view.show(TABLE)
    assert terminal.screen() == TABLE

"""The terminal view, on a terminal and on a file."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import termios

import pytest

from webcrawl.hive.launch.terminal import TerminalView

TABLE = ["hive web", "drone 0  12 pages", "drone 1  15 pages"]


@pytest.fixture
def terminal():
    """A terminal of 30 columns, with what a user sees on it."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 30))
    with os.fdopen(slave, "w") as stream:
        yield Terminal(master, stream)
    os.close(master)


class Terminal:
    def __init__(self, master, stream):
        self._master = master
        self.stream = stream

    def written(self):
        data = b""
        # The system passes on what was written in pieces, and when it likes.
        while select.select([self._master], [], [], 0.1)[0]:
            data += os.read(self._master, 10_000)
        return data.decode()

    def screen(self):
        """The lines on it, as far as this view's few controls go."""
        lines, row = [""], 0
        for part in re.split(r"(\r?\n|\x1b\[\d*[AJ])", self.written()):
            if up := re.fullmatch(r"\x1b\[(\d+)A", part):
                row -= int(up[1])
            elif part == "\x1b[J":
                lines[row:] = [""]
            elif part.endswith("\n"):
                row += 1
                lines += [""] * (row == len(lines))
            else:
                lines[row] += part.strip("\r")
        return lines[:-1]


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
def test_a_terminal_that_goes_away_ends_nothing(clock, first):
    master, slave = pty.openpty()
    stream = os.fdopen(slave, "w")
    view = TerminalView(stream=stream, every=10, clock=clock)
    view.show(TABLE)
    os.close(master)
    for _ in range(3):
        clock.advance(100)
        if first == "say":
            view.say("drone 1 died")
        view.show(TABLE)
    with pytest.raises(OSError, match="Input/output"):
        stream.close()

"""The terminal view of a hive."""

import io
import os
import pty

from webcrawl.hive.launch.terminal import TerminalView

TABLE = ["hive web", "drone 0  12 pages", "drone 1  15 pages"]


def test_the_table_is_printed_now_and_then(clock):
    file = io.StringIO()
    view = TerminalView(stream=file, every=10, clock=clock)
    for _ in range(25):
        clock.advance(1)
        view.show(TABLE)
    view.say("stopping\x1b[2J")
    assert file.getvalue() == ("\n".join(TABLE) + "\n") * 2 + "stopping\\x1b[2J\n"


def test_a_terminal_that_goes_away_ends_nothing(clock):
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        view = TerminalView(stream=terminal, every=10, clock=clock)
        view.say("drone 1 died")
        os.close(ours)
        for _ in range(3):
            clock.advance(100)
            view.say("drone 1 died")
            view.show(TABLE)

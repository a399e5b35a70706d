"""Messages for the user on standard error."""

import os
import pty
import sys

from webcrawl.crawl.engine.user_messages import print_error


def test_a_terminal_that_goes_away_ends_nothing(monkeypatch):
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        print_error("drone 1 died\x1b[2J\n")
        assert os.read(ours, 100) == b"drone 1 died\\x1b[2J\r\n"
        os.close(ours)
        for _ in range(3):
            print_error("drone 1 died\n")

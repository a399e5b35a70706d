"""The progress of a command, on a terminal."""

import io
import sys

from text_tables import each

from webcrawl import commands
from webcrawl.commands import progress, progress_in_bytes


class Stream(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self.isatty = lambda: is_terminal


@each("is_terminal", True, False)
def test_a_count_is_shown_on_a_terminal_and_erased_at_the_end(monkeypatch, is_terminal):
    monkeypatch.setattr(sys, "stderr", Stream(is_terminal))
    with progress("URLs") as on_progress:
        on_progress(1_234)
        on_progress(1_235)  # too soon
    assert sys.stderr.getvalue() == f"\r{'1,234 URLs':<40}\r\r{'':<40}\r" * is_terminal


def test_bytes_are_added_up(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Stream(is_terminal=True))
    monkeypatch.setattr(commands, "_PROGRESS_SECS", 0)
    with progress_in_bytes() as on_progress:
        on_progress(1_000_000)
        on_progress(500)
    assert sys.stderr.getvalue().split("\r")[3].rstrip() == "1,000,500 bytes"

"""The progress of a command, on a terminal."""

from __future__ import annotations

import sys

import pytest
from terminal import Terminal

from webcrawl.commands import progress, progress_of


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with Terminal() as terminal:
        yield terminal


def test_a_count_is_shown_below_what_is_printed_and_erased_at_the_end(terminal, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    with progress("URLs") as on_progress:
        on_progress(1_234)
        assert terminal.screen() == ["1,234 URLs"]
        sys.stderr.write("a line\n")
        assert terminal.screen() == ["a line", "1,234 URLs"]
    assert terminal.screen() == ["a line"]
    assert sys.stderr is terminal.stream


def test_of_bytes_their_share_is_shown(terminal, monkeypatch):
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    with progress_of(4_000_000) as on_progress:
        on_progress(1_000_000)
        assert terminal.screen() == ["25 % of 4.00MB, 0:00:00 left"]


def test_a_file_gets_nothing(monkeypatch, tmp_path):
    with (tmp_path / "file").open("w") as file:
        monkeypatch.setattr(sys, "stderr", file)
        with progress("URLs") as on_progress:
            on_progress(1_234)
    assert (tmp_path / "file").read_text() == ""

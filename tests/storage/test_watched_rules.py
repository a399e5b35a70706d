"""A file of rules that is watched: the end of a reading, and errors that are no line's."""

import threading

import pytest

from webcrawl.storage.watched_rules import RulesFile


class Rules(list):
    """Takes each line; one that says so is an error of the program."""

    begun, go_on = threading.Event(), threading.Event()

    def add(self, line):
        if line == "bug":
            raise RuntimeError("a bug")
        if line == "slow":
            self.begun.set()
            self.go_on.wait()
        self.append(line)


@pytest.fixture
def file(tmp_path, clock):
    path = tmp_path / "rules"
    path.write_text("one\n")
    rules = RulesFile(
        path=path, setting="RULES", no_effect="is none", make_rules=Rules, clock=clock
    )
    rules.open()
    return path, rules


def look(rules, clock):
    """Twice, as a file that changes is read when it is the same for two looks."""
    for _ in range(3):
        clock.advance(1)
        rules.reload_if_changed()


def test_close_does_not_wait_for_a_reading_which_ends_at_the_next_line(file, clock):
    path, rules = file
    path.write_text("slow\ntwo\nthree\n")
    look(rules, clock)
    Rules.begun.wait()
    rules.close()
    Rules.go_on.set()
    rules.reading.result()
    assert rules.rules == ["one"]


def test_an_error_of_the_program_is_logged_once_and_the_rules_stay(file, clock, caplog):
    path, rules = file
    path.write_text("bug\n")
    for _ in range(3):
        look(rules, clock)
        rules.reading.result()
    assert rules.rules == ["one"]
    assert caplog.text.count("RuntimeError: a bug") == 1
    path.write_text("two\n")
    look(rules, clock)
    rules.reading.result()
    assert rules.rules == ["two"]
    rules.close()

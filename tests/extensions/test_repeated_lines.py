"""Which repeated messages are logged, which are counted."""

import logging

from webcrawl.extensions.repeated_lines import Repeats


def record(*, line=1, level=logging.ERROR, error=None, name="a.module"):
    raised = error and (error, error("x"), None)
    return logging.LogRecord(name, level, "module.py", line, "page %d", (7,), raised)


def logged(repeats, count, **kind):
    return sum(repeats.admit(record(**kind)) for _ in range(count))


def left_out(repeats):
    return [(kind.count, kind.text) for kind in repeats.next_minute()]


def test_of_a_message_that_repeats_five_are_logged_then_one_a_minute():
    repeats = Repeats()
    assert logged(repeats, 100) == 5
    assert left_out(repeats) == [(95, "page 7")]
    assert logged(repeats, 100) == 1
    assert left_out(repeats) == [(99, "page 7")]
    assert logged(repeats, 1) == 1
    assert left_out(repeats) == []


def test_a_pause_of_five_minutes_allows_five_again():
    repeats = Repeats()
    logged(repeats, 5)
    for _ in range(5):
        assert left_out(repeats) == []
    assert logged(repeats, 100) == 5


def test_places_and_types_of_exceptions_are_counted_apart():
    repeats = Repeats()
    kinds = [{"line": 1}, {"line": 2}, {"error": KeyError}, {"error": OSError}]
    assert [logged(repeats, 9, **kind) for kind in kinds] == [5, 5, 5, 5]
    assert (4, "page 7 (KeyError)") in left_out(repeats)


def test_progress_and_python_s_own_warnings_are_all_logged():
    repeats = Repeats()
    assert logged(repeats, 100, level=logging.INFO) == 100
    assert logged(repeats, 100, level=logging.WARNING, name="py.warnings") == 100

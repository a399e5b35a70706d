"""Whole logs: several at once, compressed, broken."""

import gzip
import random
import tracemalloc

import pytest
from access_lines import simweb_line
from hypothesis import given
from hypothesis import strategies as st
from text_tables import each

from webcrawl.errors import FatalError
from webcrawl.jobs.audit.access_logs import audit_logs
from webcrawl.jobs.audit.auditor import RequiredDelays

OWN = '{"url":"http://a.test/","sent":1.5,"took":0.1}\n'


def audit(*logs, key="host", delay=0.0, **more):
    names = [str(log) for log in logs]
    return audit_logs(names, key=key, delays=RequiredDelays(delay), keep=100, **more)


@pytest.fixture
def log(tmp_path):
    """Writes its arguments, lines, to a new log."""

    def write(*lines, name="access.log"):
        path = tmp_path / name
        data = "".join(lines).encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


def test_unreadable_lines_are_counted_only(log):
    path = log(simweb_line(0, 10), "nonsense\n", "\n", simweb_line(10, 12))
    auditor, tally = audit(path)
    assert (auditor.contacts, auditor.violations) == (2, 0)
    assert (tally.lines, tally.unreadable) == (3, 1)
    assert tally.first_unreadable == f"{path}, line 2"


@each("name", "access.log", "access.log.gz")
def test_a_compressed_log_is_read_like_any_other(log, name):
    path = log(*(simweb_line(at * 10, at * 10 + 5) for at in range(5000)), name=name)
    auditor, _ = audit(path, delay=5e-06)
    assert (auditor.contacts, auditor.violations, auditor.smallest) == (5000, 0, 5)


def test_a_line_that_is_being_written_is_left_out_at_every_length(log):
    whole, torn = simweb_line(0, 1), simweb_line(2, 3)
    for length in range(len(torn) - 2):
        auditor, tally = audit(log(whole, torn[:length]))
        assert (auditor.contacts, tally.unreadable) == (1, 0)
    auditor, _ = audit(log(whole, torn.rstrip("\n")))
    assert auditor.contacts == 2


def test_windows_line_ends_and_long_lines_do_no_harm(log):
    path = log(
        simweb_line(0, 1).replace("\n", "\r\n"),
        simweb_line(5, 6, path="/" + "x" * 100_000),
        simweb_line(7, 8, path="/" + "x" * 1_000_000),
        simweb_line(9, 10),
        "y" * 500_000,
    )
    auditor, tally = audit(path)
    assert (auditor.contacts, auditor.violations) == (3, 0)
    assert tally.unreadable == 2
    assert tally.first_unreadable.endswith("line 3")
    assert auditor.worst_violations() == []


@given(st.data())
def test_several_logs_are_one_by_time_however_they_are_divided(tmp_path_factory, data):
    spans = data.draw(
        st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=20)
    )
    spans.sort(key=sum)
    lines = [simweb_line(start, start + took) for start, took in spans]
    parts = [[], [], []]
    for line in lines:
        parts[data.draw(st.integers(0, 2))].append(line)
    directory = tmp_path_factory.getbasetemp()
    (directory / "whole.log").write_text("".join(lines))
    for number, part in enumerate(parts):
        (directory / f"part{number}.log").write_text("".join(part))
    whole, _ = audit(directory / "whole.log", delay=3e-06)
    divided, tally = audit(*(directory / f"part{n}.log" for n in range(3)), delay=3e-06)
    assert tally.lines == len(lines)
    found, expected = divided.worst_violations(), whole.worst_violations()
    assert [(v.gap, v.due) for v in found] == [(v.gap, v.due) for v in expected]
    (one,), (other,) = whole.keys.values(), divided.keys.values()
    assert (one.smallest, one.concurrency) == (other.smallest, other.concurrency)


def test_keys_are_hosts_domains_or_addresses(log):
    path = log(
        simweb_line(0, 10, host="www.bbc.co.uk", address="127.16.0.1"),
        simweb_line(5, 12, host="news.bbc.co.uk", address="127.16.0.2"),
        simweb_line(11, 13, host="www.example.org", address="127.16.0.2"),
    )
    found = {
        key: (set(auditor.keys), auditor.violations)
        for key in ("host", "domain", "address")
        for auditor, _ in [audit(path, key=key)]
    }
    assert found == {
        "host": ({"www.bbc.co.uk", "news.bbc.co.uk", "www.example.org"}, 0),
        "domain": ({"bbc.co.uk", "example.org"}, 1),
        "address": ({"127.16.0.1", "127.16.0.2"}, 1),
    }


@each("lines options sentence",
        (["\n", "hello\n"], {}, "access.log is neither an access log of simweb nor a"),
        ([], {}, "access.log: there are no requests"),
        ([simweb_line(0, 1)[:30]], {}, "there are no requests"),
        ([OWN], {"key": "address"}, "access.log, line 1: the line does not have the"))  # fmt: skip
def test_logs_that_cannot_be_checked_are_refused_with_one_sentence(log, lines, options, sentence):
    with pytest.raises(FatalError, match=sentence):
        audit(log(*lines), **options)


def test_a_file_that_cannot_be_read_is_one_sentence(log, tmp_path):
    good = log(simweb_line(0, 1), name="good.log")
    with pytest.raises(FatalError, match=r"cannot read .*no.log: No such file"):
        audit(good, tmp_path / "no.log")
    with pytest.raises(FatalError, match=r"cannot read .*: Not a regular file"):
        audit(good, tmp_path)
    with pytest.raises(FatalError, match=r"good.log is given twice"):
        audit(good, tmp_path / "." / "good.log")
    (tmp_path / "other.log").write_text("no log\n")
    with pytest.raises(FatalError, match=r"other.log is neither"):
        audit(good, tmp_path / "other.log")


def test_damaged_gzip_is_named_with_the_last_good_line(log, tmp_path):
    whole = log(*(simweb_line(at, at + 1) for at in range(3000)), name="a.gz").read_bytes()
    for name, data in (("cut.gz", whole[: len(whole) // 2]), ("end.gz", whole[:-3])):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(FatalError, match=rf"{name}: the compressed data is damaged after line"):
            audit(tmp_path / name)
    (tmp_path / "bad.gz").write_bytes(whole[:3000] + b"\xff" * 50 + whole[3050:])
    with pytest.raises(FatalError, match=r"bad.gz: the compressed data is damaged after line"):
        audit(tmp_path / "bad.gz")


PIECES = st.sampled_from(
    [
        simweb_line(1, 2).encode(),
        OWN.encode(),
        b"\n",
        b"\r",
        b"\x1f\x8b",
        b'"',
        b"\xff",
    ]
)


@given(st.lists(st.one_of(st.binary(max_size=20), PIECES), max_size=12), st.booleans())
def test_any_file_is_checked_or_refused_with_a_sentence(tmp_path_factory, pieces, packed):
    path = tmp_path_factory.getbasetemp() / "any.log"
    data = b"".join(pieces)
    path.write_bytes(gzip.compress(data)[: len(data) + 20] if packed else data)
    try:
        auditor, tally = audit(path)
    except FatalError as error:
        sentence = str(error)
    else:
        assert 0 < auditor.contacts <= data.count(b"\n") + 1 - tally.unreadable
        return
    assert str(path) in sentence
    assert "\n" not in sentence


def test_progress_is_reported_in_lines(log):
    told = []
    path = log(*(simweb_line(at, at) for at in range(70_000)))
    audit(path, on_progress=told.append)
    assert told == [1 << 16]


def test_contacts_too_far_out_of_order_are_counted_if_not_judged(log):
    rng = random.Random(2)
    lines = [simweb_line(at * 10, at * 10 + 1) for at in range(1000)]
    rng.shuffle(lines)
    assert audit(log(*lines))[0].unjudged == 0
    auditor, _ = audit(log(*lines), window=5)
    assert auditor.unjudged > 500
    assert auditor.violations == 0


def test_memory_does_not_grow_with_the_number_of_lines(log):
    def peak(lines):
        path = log(*(simweb_line(at * 10, at * 10 + 5, host=f"{at % 50}.test") for at in lines))
        tracemalloc.start()
        audit(path, window=1000)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    assert peak(range(8_000)) < peak(range(2_000)) * 1.2

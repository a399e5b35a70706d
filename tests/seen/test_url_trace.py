"""Tests of URL traces: what was written is read, after crashes and cut files, too."""

import json

import pytest
import warm
from crawling import printed
from text_tables import each

from webcrawl.errors import FatalError
from webcrawl.seen.url_trace import UrlTrace, most_popular, read_trace, write_trace


def opened(path):
    trace = UrlTrace(path=path)
    trace.open()
    return trace


def test_a_trace_cut_anywhere_continues_after_its_last_record(tmp_path):
    path = tmp_path / "trace"
    trace = opened(path)
    for page in range(3):
        trace.add([10 * page + 1, 10 * page + 2, 7], [True, False, page == 1], 100.0 + page)
        trace.flush()
    whole = path.read_bytes()
    trace.add([99], [True], 104.0)  # dies before it is a second old
    trace._log.close()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        trace = opened(path)
        trace.add([5], [True], 200.0)
        trace.close()
        found = read_trace(path)
        records = max(0, (length - 8 - (8 + 16 + 8)) // (8 + 16 + 3 * 8 + 1))
        expected = [(fp, fp % 10 == 1 or (fp, page) == (7, 1)) for page in range(records)
                    for fp in (10 * page + 1, 10 * page + 2, 7)]  # fmt: skip
        assert [*zip(found.fps.tolist(), found.leaves.tolist(), strict=True)] == [
            *expected,
            (5, True),
        ]
        assert (found.begun, found.ended) == (100.0 if records else 200.0, 200.0)


def test_links_are_on_disk_after_a_second_or_when_they_are_many(tmp_path):
    trace = opened(tmp_path / "trace")
    trace.add([1], [False], 100.0)
    trace.add([2], [False], 101.0)
    with pytest.raises(FatalError, match="has no links"):
        read_trace(trace.path)
    trace.add([3], [False], 101.1)
    assert read_trace(trace.path).fps.tolist() == [1, 2, 3]
    trace.add(range(10, 5010), bytes(5000), 102.0)
    assert len(read_trace(trace.path).fps) == 5003
    trace.close()


def test_the_most_popular_come_first_and_are_those_of_their_own_trace(tmp_path):
    write_trace(tmp_path / "popular", most_popular(read_trace_of([5, 9, 9, 3, 3, 9], tmp_path), 2))
    fps = read_trace(tmp_path / "popular").fps
    assert fps.tolist() == [9, 3]
    assert most_popular(fps, 9) == [9, 3]


def read_trace_of(fps, tmp_path):
    write_trace(tmp_path / "trace", fps)
    return read_trace(tmp_path / "trace").fps


@each("payload", b"", b"URLX" + bytes(12), b"URLT\xff" + bytes(11))
def test_another_record_log_is_not_a_trace(tmp_path, payload):
    trace = opened(tmp_path / "other")
    trace._log.append(payload)
    trace.close()
    for use in [read_trace, opened][: 1 if payload.startswith(b"URLT") else 2]:
        with pytest.raises(FatalError, match="is not a URL trace"):
            use(tmp_path / "other")


def test_the_command_prints_the_properties_of_a_trace(tmp_path):
    # The URL of rank r is met 840 / r times: the exponent is 1.
    urls = [rank for rank in range(1, 9) for _ in range(840 // rank)]
    write_trace(tmp_path / "urls", urls)
    found = json.loads(printed("urltrace", "--json", tmp_path / "urls"))
    assert found["requests"] == len(urls)
    assert found["distinct"] == 8
    assert found["popularity"] == [[1, 840], [2, 420], [4, 210], [8, 105]]
    assert found["exponent"] == pytest.approx(1)
    write_trace(tmp_path / "trace", [1, 2, 2, 3])
    popular = tmp_path / "popular"
    said = printed("urltrace", tmp_path / "trace", "--popular", popular)
    assert "repeated      25.0% of the requests" in said
    assert read_trace(popular).fps.tolist() == [2, 1, 3]
    run = warm.scrapy("urltrace", tmp_path / "none")
    assert (run.returncode, run.stderr.count("\n")) == (2, 1)
    assert "cannot be read" in run.stderr

"""The access log and its judge."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.simweb import AnswerEnd, Hit, World, allowed_urls, judge, overlaps, read_access_log
from webcrawl.simweb.accesslog import AccessLog, epoch_clock, escaped
from webcrawl.simweb.judge import pauses

LINE = (
    '127.0.0.1 - - [1763625600.123456 1763625600.125001] "GET /a-4.html HTTP/1.1" 200 5120 '
    '"-" "webcrawl/1.0 (+https://example.org)" http://Site00042.sim.test:8480 127.16.0.5 ok\n'
)


def hit(start, end, *, host="a", target="/", origin=None):
    return Hit(
        start=start,
        end=end,
        client="127.0.0.1",
        method="GET",
        target=target,
        version="1.1",
        status=200,
        size=1,
        referer="",
        agent="",
        origin=origin or f"http://{host}:80",
        address="127.16.0.1",
        outcome=AnswerEnd.OK,
    )


def test_a_line_is_read_as_documented(tmp_path):
    path = tmp_path / "log"
    path.write_text(LINE)
    (found,) = read_access_log(path)
    assert found == Hit(
        start=1763625600.123456,
        end=1763625600.125001,
        client="127.0.0.1",
        method="GET",
        target="/a-4.html",
        version="1.1",
        status=200,
        size=5120,
        referer="",
        agent="webcrawl/1.0 (+https://example.org)",
        origin="http://Site00042.sim.test:8480",
        address="127.16.0.5",
        outcome=AnswerEnd.OK,
    )
    assert found.url == "http://Site00042.sim.test:8480/a-4.html"
    assert found.host == "site00042.sim.test"


def test_a_torn_last_line_is_left_out_at_every_length(tmp_path):
    path = tmp_path / "log"
    for length in range(len(LINE)):
        path.write_text(LINE + LINE[:length])
        assert len(list(read_access_log(path))) == 1


def test_damage_is_named_with_its_line(tmp_path):
    path = tmp_path / "log"
    path.write_text(LINE + "nonsense\n" + LINE)
    with pytest.raises(ValueError, match="log, line 2: not a line"):
        list(read_access_log(path))


@given(st.text(st.characters(max_codepoint=255), max_size=20))
def test_no_field_can_break_a_line(text):
    field = escaped(text)
    assert field.isascii()
    assert field.isprintable()
    assert '"' not in field
    assert field


def test_lines_are_buffered_until_flushed_and_a_log_is_appended_to(tmp_path):
    path = tmp_path / "log"
    log = AccessLog(path=path)
    log.add(LINE)
    assert path.read_text() == ""
    log.flush()
    log.add(LINE)
    log.close()
    assert path.read_text() == LINE * 2
    AccessLog(path=path).close()
    assert path.read_text() == LINE * 2


def test_a_full_buffer_is_written_at_once(tmp_path):
    log = AccessLog(path=tmp_path / "log")
    for _ in range(1000):
        log.add(LINE)
    assert len(list(read_access_log(tmp_path / "log"))) > 700
    log.close()
    assert len(list(read_access_log(tmp_path / "log"))) == 1000


def test_the_clock_never_goes_back():
    clock = epoch_clock()
    times = [clock() for _ in range(1000)]
    assert times == sorted(times)


def test_pauses_are_from_the_end_of_an_answer_to_the_next_request():
    hits = [hit(5, 6), hit(1, 2), hit(1, 9, host="b"), hit(9, 10)]
    assert [(one.host, one.secs) for one in pauses(hits)] == [("a", 3), ("a", 3)]
    assert overlaps(hits) == []


def test_requests_to_one_host_at_once_are_found_even_behind_a_short_one():
    long, short, late = hit(1, 10), hit(2, 3), hit(5, 6)
    found = overlaps([long, short, late, hit(2, 3, host="b")])
    assert [(one.before, one.after) for one in found] == [(long, short), (long, late)]


def test_two_ports_of_a_name_are_one_host():
    assert overlaps([hit(1, 4, origin="http://a:80"), hit(2, 3, origin="https://A:443")])


def test_the_judge_names_what_is_missing_forbidden_and_repeated():
    world = World(hosts=5)
    allowed = sorted(allowed_urls(world, "webcrawl"))
    hits = []
    for url in [*allowed[1:], allowed[3], "http://site00001.sim.test:8480/never-1.html"]:
        at = url.index("/", 8)
        hits.append(hit(0, 1, origin=url[:at], target=url[at:]))
    hits += [hit(0, 1, origin=hits[0].origin, target=name) for name in ("/robots.txt", "/maze/a/")]
    verdict = judge(world, hits, "webcrawl")
    assert verdict.missing == {allowed[0]}
    assert verdict.forbidden == {"http://site00001.sim.test:8480/never-1.html"}
    assert verdict.repeated == {allowed[3]: 2}
    retried = [hits[3]._replace(status=503), hits[3]._replace(outcome=AnswerEnd.RESET), hits[3]]
    assert judge(world, retried, "webcrawl").repeated == {}
    assert verdict.fetched == len(allowed) - 1
    assert verdict.endless == 1

"""The access log."""

import tempfile

from access_log_reader import read_access_log
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.simweb.accesslog import AnswerEnd, Hit, escape, line_of

LINE = (
    '127.0.0.1 - - [1763625600.123456 1763625600.125001] "GET /a-4.html HTTP/1.1" 200 5120 '
    '"-" "webcrawl/1.0 (+https://example.org)" http://Site00042.sim.test:8480 127.16.0.5 ok\n'
)


HIT = Hit(
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


def test_a_line_is_written_and_read_as_documented(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(line_of(HIT))
    assert path.read_text() == LINE
    (found,) = read_access_log(path)
    assert found == HIT
    assert found.url == "http://Site00042.sim.test:8480/a-4.html"
    assert found.host == "site00042.sim.test"


@given(st.text(st.characters(max_codepoint=255), max_size=20))
def test_any_hit_is_read_as_it_was_written(text):
    hit = HIT._replace(agent=text, origin=f"ftp://{text}", version="-")
    with tempfile.NamedTemporaryFile() as file:
        file.write(line_of(hit))
        file.flush()
        (found,) = read_access_log(file.name)
    assert found == hit._replace(
        agent=escape(text).removeprefix("-"), origin=escape(hit.origin).replace(" ", "%20")
    )

"""``scrapy delta``: which lines tell of a change, since when, and how a position holds."""

import gzip
import json

import msgspec
import pytest
import warm
from golden import golden
from text_tables import each, lines, table

from webcrawl.crawl.lease.outcome_log import INFO_LOG, MAX_OTHER_URL, MAX_URL, OutcomeLine
from webcrawl.errors import FatalError
from webcrawl.jobs.inspect import last_lines
from webcrawl.jobs.inspect.delta import delta, parse_since
from webcrawl.storage.line_log import LineLog, numbered_files, numbered_path

NOON = 1_795_694_400.0  # 2026-11-26T12:00Z


def write(jobdir, *lines, max_bytes=1 << 20):
    """Append to the log of *jobdir*, as a crawl does."""
    log = LineLog(path=jobdir / INFO_LOG, max_bytes=max_bytes)
    log.open()
    for line in lines:
        log.append(line if isinstance(line, bytes) else msgspec.json.encode(line))
    log.close()


def line(name, at, visit="", **facts):
    """Of a document, unless *facts* say otherwise; of a visit all but the first have one before."""
    given = {"outcome": "http_200", "content": f"{abs(at):016.0f}", "sent": NOON + at - 1} | facts
    if visit:
        given = {"stored": NOON} | given
    return OutcomeLine(
        NOON + at, f"http://a.test/{name}", "a.test", form="0" * 16, visit=visit, **given
    )


def changes(jobdir, text="0"):
    """By the paths of the URLs, and the token."""
    found, token = delta(jobdir, parse_since(text), on_progress=lambda *_: None)
    by_path = [(one.url.removeprefix("http://a.test/"), one) for one in found]
    assert len({name for name, _ in by_path}) == len(by_path)
    return dict(by_path), token


def kinds(jobdir, text="0"):
    return {name: one.change for name, one in changes(jobdir, text)[0].items()}


# Those of a URL in their order, at these seconds after noon.
WRITTEN = """
    same   | 1  |           |
    same   | 20 | unchanged |
    fails  | 1  |           |
    fails  | 20 | failed    | timeout
    new    | 20 |           |
    other  | 1  |           |
    other  | 20 | changed   |
    gone   | 1  |           |
    gone   | 20 | gone      | http_410
    moved  | 20 | moved     | http_301 http://b.test/
    back   | 18 | gone      | http_404
    back   | 20 | changed   |
"""


def written(name, at, visit, end):
    """A line of which *end* is the outcome, and where a redirect leads."""
    facts = dict(zip(("outcome", "redirect"), end.split(), strict=False))
    return line(name, int(at), visit, **facts)


LINES = [
    *(written(*row) for row in table(WRITTEN)),
    line("copy", 20, duplicate=True, type="text/plain"),
    line("denied", 20, "gone", outcome="robots_denied", sent=0.0),
    line("far", 20, "moved", outcome="http_301", redirect="x" * MAX_OTHER_URL),
    # No page was there, a processing module failed on it, and the URL is not whole.
    line("never", 20, "gone", outcome="http_404", content="", stored=0.0),
    line("404", 20, outcome="http_404", content=""),
    line("302", 20, outcome="http_302", content="", redirect="http://b.test/"),
    line("lost", 20, flags="soft_error"),
    line("bug", 20, content=""), line("x" * MAX_URL, 20), b'{"at": "damaged"}',
]  # fmt: skip


def test_a_url_is_listed_once_in_its_latest_state(tmp_path, monkeypatch):
    write(tmp_path, *LINES)
    monkeypatch.setattr(last_lines, "_PASS_BYTES", 1000)  # several parts of URLs
    found, _ = changes(tmp_path, "2026-11-26T12:00:10Z")
    encoded = [msgspec.json.encode(found[name]).decode() for name in sorted(found)]
    text = "\n".join([*encoded, ""])
    assert text == golden("delta.jsonl", text)
    assert line("bug", 20, content="", etag='"1"').history.headers() == {}
    # The fresh export has all, and what is there is new to who takes it.
    fresh, _ = changes(tmp_path)
    assert (fresh["same"].fetched_at, fresh["other"].content) == (NOON, f"{20:016}")
    assert fresh.keys() == found.keys() | {"same", "fails"}
    assert {fresh[name].change for name in ("same", "fails", "other", "back")} == {"added"}


def test_a_token_continues_where_the_delta_ended(tmp_path):
    write(tmp_path, line("a", 1), line("b", 1))
    with (tmp_path / INFO_LOG).open("ab") as file:
        file.write(b'{"at": 1, "url": "torn')
    found, token = changes(tmp_path)
    assert found.keys() == {"a", "b"}
    assert changes(tmp_path, token)[0] == {}
    # By a clock that was set back, in files that are turned over and compressed.
    write(tmp_path, *[line(f"{n}", -9000, "changed") for n in range(9)], max_bytes=300)
    full = numbered_files(tmp_path / INFO_LOG)
    assert len(full) > 3
    for one in full[::2]:
        one.with_name(f"{one.name}.gz").write_bytes(gzip.compress(one.read_bytes()))
        one.unlink()
    found, later = changes(tmp_path, token)
    assert found.keys() == {str(n) for n in range(9)}
    write(tmp_path, line("a", 2, "changed"), max_bytes=1)
    assert kinds(tmp_path, later) == {"a": "changed"}
    assert kinds(tmp_path, token).keys() == found.keys() | {"a"}
    # Turned over, and not gone on, while it is read.
    changing, _ = delta(tmp_path, parse_since("0"), on_progress=lambda *_: None)
    number = len(numbered_files(tmp_path / INFO_LOG, packed=True)) + 1
    (tmp_path / INFO_LOG).rename(numbered_path(tmp_path / INFO_LOG, number))
    assert len([*changing]) == 11
    assert changes(tmp_path)[0].keys() == found.keys() | {"a", "b"}


def test_the_logs_of_a_hive_are_read_each_from_its_position(tmp_path):
    for drone, name in enumerate("ab", 1):
        write(tmp_path / f"drones/{drone}", line(name, drone))
    _, token = changes(tmp_path)
    # The shard of "b" went to the first drone, and a third came.
    write(tmp_path / "drones/1", line("b", 5, "changed"))
    write(tmp_path / "drones/3", line("c", 5))
    assert kinds(tmp_path, token) == {"b": "changed", "c": "added"}
    assert changes(tmp_path)[0]["b"].fetched_at == NOON + 4
    # While one delta is read the hive goes on.
    changing, token = delta(tmp_path, parse_since("0"), on_progress=lambda *_: None)
    first = next(changing)
    write(tmp_path / "drones/1", line("d", 6), line("a", 6, "changed"))
    assert {first.url, *(one.url for one in changing)} == {f"http://a.test/{n}" for n in "abc"}
    assert kinds(tmp_path, token) == {"d": "added", "a": "changed"}


def test_since_takes_times_and_ages():
    for text, begins in (
        ("2026-11-26T12:00Z", 0), ("2026-11-26", -43_200), ("20261126T120001.5", 1.5),
        ("1795694400", 0), ("2026-11-26T12:00+01:00", -3600),
    ):  # fmt: skip
        assert parse_since(text) == (NOON + begins, ())
    assert parse_since("7d").at + 7 * 86_400 == pytest.approx(parse_since("0s").at, abs=5)


@each(
    "text",
    *lines("""
        7 dogs
        -1
        nan
        inf
        2026-13-01
        @1:2
        0@
        0@1
        0@1:2:3
        0@x:1
        """),
    "",
)
def test_an_invalid_time_or_token_is_refused(text):
    with pytest.raises(FatalError, match=r" is not a date .* or the token that the last"):
        parse_since(text)


@each("places", "1:99999", "2:0", "0:0", "1:-5", "1:0,1:0")
def test_a_token_of_another_job_is_refused(tmp_path, places):
    write(tmp_path, line("a", 1))
    with pytest.raises(FatalError, match=r"The token in --since belongs to another job, not to "):
        changes(tmp_path, f"2026-11-26T12:00:00Z@{places}")


def test_after_log_removal_the_earliest_time_is_named(tmp_path):
    write(tmp_path, line("a", 1), line("b", 2.125), max_bytes=1)
    _, token = changes(tmp_path)
    write(tmp_path, line("c", 3), max_bytes=1)
    (tmp_path / "logs/info-000001.jsonl").unlink()
    for text in ("0", "2026-11-26T12:00:02Z", "2026-11-26T12:00:02Z@1:5"):
        with pytest.raises(
            FatalError, match=r"The earliest possible is --since 2026-11-26T12:00:02.125Z"
        ):
            changes(tmp_path, text)
    assert kinds(tmp_path, "2026-11-26T12:00:02.125Z").keys() == {"b", "c"}
    assert kinds(tmp_path, token).keys() == {"c"}


# --- the command


def command(*words):
    return warm.scrapy("delta", *map(str, words))


def test_the_command_writes_lines(tmp_path):
    write(tmp_path, line("a", 0.25, sent=0.0), line("b", 2, "gone", outcome="http_404"))
    done = command(tmp_path, "--since", 0)
    assert done.returncode == 0, done.stderr
    told = [json.loads(one) for one in done.stdout.splitlines()]
    assert told[0] == {
        "url": "http://a.test/a", "fetched_at": NOON + 0.25, "change": "added",
        "content": f"{0:016}", "content_type": "text/html",
    }  # fmt: skip
    token = done.stderr.splitlines()[-1]
    size = (tmp_path / INFO_LOG).stat().st_size
    assert token.endswith(f"Z@1:{size}")
    done = command(tmp_path, "--since", 0, "-o", tmp_path / "out.jsonl")
    assert (done.returncode, done.stdout.partition("@")[2]) == (0, f"1:{size}\n"), done.stderr
    assert done.stderr == "2 changes; for the next delta use --since\n"
    assert [*map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())] == told
    done = command(tmp_path, "--since", token, "-o", tmp_path / "none.jsonl")
    assert (done.returncode, done.stdout.partition("@")[2]) == (0, f"1:{size}\n")
    assert (tmp_path / "none.jsonl").read_text() == ""
    done = command(tmp_path, "--since", 0, "-o", tmp_path / "out.parquet")
    assert (done.returncode, "DuckDB reads them" in done.stderr) == (2, True)

"""Passes with the recorded answers of a Chromium, and with answers that no Chromium gives."""

import re
import subprocess
import sys

import pytest
from recorded_engine import HTML, RECORDING, played
from rendered_pages import SITE, answer, page, shown, stored
from text_tables import each

from webcrawl.errors import FatalError
from webcrawl.render.engine import Answer, Pass
from webcrawl.render.process_tree import usage_of
from webcrawl.render.worker import RenderOrder, RenderWorker

LINES = RECORDING.read_text().splitlines()
OPENED = next(n for n, line in enumerate(LINES) if line.endswith("setVirtualTimePolicy"))
SETTLES = next(n for n, line in enumerate(LINES) if "virtualTimeBudgetExpired" in line)
SESSION = re.search('"sessionId":"(\\w+)"', RECORDING.read_text())[1]
REFUSED = {
    "/private/a.js robots.txt",
    "/i.png image",
    "/post method POST",
    "/elsewhere navigation",
}


def rendered(lines=LINES, html=HTML, **bounds):
    with played(lines) as (engine, _):
        return engine.render(page(html, **bounds), stored)


def test_a_pass_returns_the_dom_and_what_was_missing_and_refused():
    rendering = rendered()
    assert rendering.ended == "settled"
    assert shown(rendering) == {
        "links": ["/p1", "/p2"],
        "missing": ["/missing.js script"],
        "refused": sorted(REFUSED),
        "base": f"{SITE}/p1",
        "tried": ["/elsewhere"],
    }
    assert (rendering.requests, rendering.bytes) == (3, 14)


def test_the_document_is_given_not_fetched_and_decoded():
    gzip = {"Content-Encoding": "gzip", "Content-Length": "9", "Set-Cookie": "a=1", "X-Kept": "1"}
    invalid = {"X A": "1", "X:A": "1", "": "1", "X-Nul": "a\0", "X-Line": "a\r\nb"}
    given = Pass(f"{SITE}/page#part", answer(HTML, status=404, **gzip, **invalid))
    with played(LINES) as (engine, calls):
        engine.render(given, stored)
    whole = next(call["params"] for call in calls if call["method"] == "Fetch.fulfillRequest")
    names = [field["name"] for field in whole["responseHeaders"]]
    assert names == ["Content-Type", "X-Kept"]
    assert whole["responseCode"] == 200


@each("bounds reason", ({"requests": 1}, "too many requests"), ({"bytes": 13}, "too many bytes"))
def test_look_ups_over_a_bound_are_refused(bounds, reason):
    rendering = rendered(**bounds)
    assert (f"{SITE}/data.json", reason) in rendering.refused
    assert rendering.bytes == 0


@each(
    "bounds ended",
    ({"memory": 1}, "memory"),
    ({"cpu_secs": -1}, "cpu"),
    ({"wall_secs": -1}, "wall"),
)
def test_a_pass_over_a_bound_ends(bounds, ended):
    assert rendered(**bounds).ended == ended


def test_a_browser_that_ends_at_any_time_costs_one_pass():
    ends = {rendered(LINES[:end]).ended for end in range(OPENED, len(LINES) - 1, 3)}
    assert ends == {"crashed"}


@each(
    "line",
    f'< {{"method": "Inspector.targetCrashed", "sessionId": "{SESSION}"}}',
    "< no JSON",
    '< {"id": "1"}',
    '< {"method": "Page.frameNavigated", "params": 1}',
)
def test_a_page_or_browser_that_fails_costs_one_pass(line):
    rendering = rendered([*LINES[:SETTLES], line, *LINES[SETTLES:]])
    assert (rendering.ended, rendering.html) == ("crashed", "")
    assert {f"{url.removeprefix(SITE)} {why}" for url, why in rendering.refused} >= REFUSED


def test_halves_of_characters_are_replaced():
    half = [
        line.replace("<!DOCTYPE html>", r"<!-- \ud83d \ud83d\ude00 \ude00 -->") for line in LINES
    ]
    assert rendered(half).html.startswith("<!-- \ufffd \U0001f600 \ufffd -->")


def test_a_dom_over_the_bound_is_not_returned():
    without = [line.replace('"html":"<!DOCTYPE', '"html":"","h":"') for line in LINES]
    assert rendered(without).ended == "nodes"


def test_a_missing_engine_is_a_sentence():
    worker = RenderWorker(RenderOrder("rendered_pages:opened", "", path="/no/chromium"))
    with pytest.raises(FatalError, match="/no/chromium is not a program: install the system's"):
        worker.start()
    assert worker.render(Pass(f"{SITE}/", Answer(200, [], b""))).ended == "crashed"


def test_usage_counts_all_descendants():
    code = "x = bytearray(40 << 20); sum(range(3 * 10**7)); print(1, flush=True); input()"
    command = ["sh", "-c", '"$0" -c "$1"; true', sys.executable, code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as shell:
        shell.stdout.readline()
        cpu_secs, memory = usage_of(shell.pid)
        shell.communicate(b"\n")
    assert cpu_secs > 0.1
    assert 40 << 20 < memory < 200 << 20

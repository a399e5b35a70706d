"""The pages of tests/data/rendered_pages.toml: rendered, and compared with what they show."""

import re
import tomllib
from pathlib import Path

import pytest

from webcrawl.render import isolation
from webcrawl.render.chromium import Chromium
from webcrawl.render.engine import Answer, Bounds, Pass

_FILE = Path(__file__).parents[2] / "data/rendered_pages.toml"
SITE = "http://site.test"
_CASES = tomllib.loads(_FILE.read_text())
_HREF = re.compile(r'<a href="([^"]*)"')
_BASE = re.compile(r'<base href="(http[^"]*)"')
_TRIED = re.compile(r'<meta http-equiv="refresh" content="0; url=([^"]*)">')


def cases(kind):
    return [pytest.param(case, id=case["name"]) for case in _CASES[kind]]


def answer(body, kind="text/html; charset=utf-8", *, status=200, **headers):
    return Answer(status, [("Content-Type", kind), *headers.items()], body.encode())


def stored(asked):
    """What the store has."""
    url = asked.url
    if url == f"{SITE}/private/a.js":
        return "robots.txt"
    if url.startswith(f"{SITE}/large"):
        return answer("x" * 1_000_000)
    found = _CASES["stored"].get(url) or _CASES["stored"].get(url.removeprefix(SITE))
    if found is None:
        return None
    if found[0] == "redirect":
        return answer("", status=302, Location=found[1])
    fields = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*"}
    return answer(found[1], found[0], **fields if url.startswith("http://cdn.test/") else {})


def leaving():
    """Pages that go elsewhere without a request."""
    ways, targets = _CASES["leaves"]["how"], _CASES["leaves"]["to"]
    return [
        pytest.param(html.replace("TO", to), id=f"{name} {to}")
        for name, html in ways.items()
        for to in (targets if name == "location" else targets[:2])
    ]


def outliving():
    """Pages that try to do something after their pass."""
    table = _CASES["outliving"]
    return [
        pytest.param(html.replace("SEND", table["send"]), id=name)
        for name, html in table["how"].items()
    ]


def opened(_):
    """The look-up of each page, as a worker process opens it."""
    return lambda page: stored


def chromium_without_namespaces():
    """An engine, as a worker process makes it."""
    isolation._NAMESPACES = ["false"]
    return Chromium()


def page(html, **bounds):
    return Pass(f"{SITE}/page", answer(f"<!DOCTYPE html><body>{html}"), Bounds(**bounds))


def shown(rendering):
    """What the file says of a page."""
    missing = [(one.url, one.kind) for one in rendering.missing]
    return {
        "missing": sorted(f"{url.removeprefix(SITE)} {what}" for url, what in missing),
        "refused": sorted(f"{url.removeprefix(SITE)} {what}" for url, what in rendering.refused),
        "links": links(rendering),
        "base": "".join(_BASE.findall(rendering.html)[:1]),
        "tried": [url.removeprefix(SITE) for url in _TRIED.findall(rendering.html)],
    }


def expected(case):
    found = {name: case.get(name, []) for name in ("missing", "refused", "links", "tried")}
    return found | {"base": case.get("base", "")}


def links(rendering):
    """The addresses in the DOM, scripts aside."""
    return _HREF.findall(re.sub("<script.*?</script>", "", rendering.html))

"""A kind of lease that the crawl does not have, as docs/why/architecture.md shows it."""

import re
from pathlib import Path

import pytest
from lease_rig import page
from text_tables import each

from webcrawl.crawl.task.task import Ending, Finish, Way
from webcrawl.frontier import NOTHING, Entry
from webcrawl.revisit.history import History, encode_history, history_of

DOCS = Path(__file__).parents[3] / "docs/why/architecture.md"
CODE = re.search(r"```python\n(class HeadCheck:.*?)```", DOCS.read_text(), re.DOTALL)[1]
HISTORY = History(1.0, 7, etag='"v1"')


@pytest.fixture
def checks(obedient):
    names = {
        "Ending": Ending, "Finish": Finish, "NOTHING": NOTHING, "Way": Way, "history_of": history_of
    }  # fmt: skip
    exec(CODE, names)
    answers = {}
    tasks = obedient.process.parts.leases.tasks
    tasks.others["check"] = names["HeadCheck"](obedient.requests, answers)
    history = encode_history(HISTORY)
    obedient.push(Entry("http://a.test/1", "a.test", kind="check", history=history))
    return answers


def test_it_has_at_most_forty_lines():
    assert len(CODE.splitlines()) <= 40


@each("status", 200, 304, 404, 503)
def test_it_is_sent_in_its_hosts_turn_and_told_its_outcome(obedient, checks, status):
    obedient.rules(b"Disallow: /private")
    obedient.wait(3)
    request = obedient.next()
    assert (request.method, request.url) == ("HEAD", "http://a.test/1")
    assert request.headers[b"If-None-Match"] == b'"v1"'
    assert obedient.next() is None
    obedient.end(request, page(status))
    assert checks == {"http://a.test/1": f"http_{status}"}
    assert obedient.is_empty
    assert obedient.outcomes == {}


def test_it_obeys_robots_txt(obedient, checks):
    obedient.rules(b"Disallow: /")
    obedient.wait(3)
    assert obedient.next() is None
    assert checks == {"http://a.test/1": "robots_denied"}
    assert obedient.is_empty


def test_it_hides_no_page_of_its_url_after_a_crash(obedient, checks):
    obedient.rules(b"")
    obedient.wait(3)
    assert obedient.answer(page()).method == "HEAD"
    obedient.frontier.requeue(Entry("http://a.test/1", "a.test"))
    obedient.crash()
    obedient.wait(200)
    assert obedient.next().method == "GET"

"""What this crawler reads in thousands of odd answers, judged by Chromium, curl and Scrapy."""

import judging
import pytest
import readers
from frozen_answers import FROZEN, letter_of
from odd_server import odd_server

_CASES = 3200
_SEED = 57


@pytest.mark.timeout(1200)
def test_where_others_get_the_document_this_crawler_has_it():
    judgement = judging.judge(judging.cases_of(_SEED, _CASES))
    print(*judgement.summary(), sep="\n")
    readable = [verdict for verdict in judgement.verdicts if verdict.expected is not None]
    assert len(readable) > _CASES // 2
    # A machine with other work may be too late for one of the clients, but not twice.
    again = judging.judge([verdict.case for verdict in judgement.faults])
    assert [(verdict.case.number, verdict.case.kinds) for verdict in again.faults] == []


def test_the_frozen_answers_are_read_by_others_as_they_were():
    with odd_server({n: row.answer for n, row in enumerate(FROZEN)}) as server:
        urls = {number: server.url(number) for number in range(len(FROZEN))}
        all_readings = (
            readers.read_by_chromium(urls, f"http://127.0.0.1:{server.port}/"),
            readers.read_by_curl(urls),
            readers.read_by_scrapy(urls),
        )
    read = {
        row.name: "".join(letter_of(readings[number]) for readings in all_readings)
        for number, row in enumerate(FROZEN)
    }
    assert read == {row.name: row.others for row in FROZEN}

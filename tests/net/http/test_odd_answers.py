"""The judge of odd answers: cases by number, and the rule by which others decide."""

import odd_answers
from judging import Verdict
from odd_server import Answer, odd_server
from readers import Reading, read_by_crawler
from text_tables import cases

PAGE = Reading(200, b"page")
UNDECODABLE, CUT = PAGE._replace(failure="undecodable"), PAGE._replace(failure="cut")
SHORT = PAGE._replace(body=b"pag")
FAILS = Reading(0, b"", "failed")
INCOMPLETE = FAILS._replace(failure="incomplete")
EMPTY_404, CUT_404 = Reading(404, b""), Reading(404, b"x", "cut")
CASE = odd_answers.Case(0, ("head: sound",), b"page", Answer((b"",)))


def test_a_number_makes_one_case_and_all_mutations_occur():
    cases = [odd_answers.case(number) for number in range(len(odd_answers.MUTATIONS))]
    assert cases == [odd_answers.case(number) for number in range(len(odd_answers.MUTATIONS))]
    assert {case.kinds[0] for case in cases} == {*odd_answers.MUTATIONS}
    assert {case.family for case in cases} == {*odd_answers.FAMILIES}


@cases(
    "crawler curl scrapy chromium agrees",
    """
        PAGE        | FAILS | FAILS | PAGE    | True
        FAILS       | FAILS | FAILS | PAGE    | False
        UNDECODABLE | FAILS | FAILS | PAGE    | False
        SHORT       | FAILS | FAILS | PAGE    | False
        FAILS       | PAGE  | PAGE  | FAILS   | False
        FAILS       | PAGE  | FAILS | FAILS   | True
        FAILS       | PAGE  | SHORT | FAILS   | True
        FAILS       | FAILS | FAILS | CUT     | True
        EMPTY_404   | FAILS | FAILS | CUT_404 | True
        INCOMPLETE  | FAILS | FAILS | CUT_404 | False
    """,
    globals(),
)
def test_chromium_or_both_others_decide(crawler, curl, scrapy, chromium, agrees):
    assert Verdict(CASE, crawler, curl, scrapy, chromium).agrees is agrees


def test_a_sound_answer_is_read_whole_however_it_is_coded_and_framed():
    sound = ("coding: sound", "framing: size in capitals", "ending: in many pieces")
    numbers = [[*odd_answers.MUTATIONS].index(kind) for kind in sound]
    cases = [odd_answers.case(number) for number in numbers]
    with odd_server({case.number: case.answer for case in cases}) as server:
        read = read_by_crawler({case.number: server.url(case.number) for case in cases})
    assert [read[case.number].body for case in cases] == [case.document for case in cases]

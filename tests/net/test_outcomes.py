"""The names of outcomes: closed, and given to whatever a fetch may end with."""

import builtins
import inspect

import twisted.internet.error
from scrapy import exceptions
from scrapy.http import Response
from text_tables import cases, each
from twisted.python.failure import Failure

from webcrawl.net import outcomes
from webcrawl.net.outcomes import OUTCOMES, outcome_of

OWN = [
    cls
    for _, cls in inspect.getmembers(outcomes, inspect.isclass)
    if cls.__module__ == outcomes.__name__ and cls is not outcomes.FetchError
]


def test_every_exception_of_the_module_has_a_name_of_the_list():
    assert len(OWN) == 15
    names = {outcome_of(cls("why")) for cls in OWN}
    assert len(names) == len(OWN)
    assert names <= OUTCOMES


@each("cls", *OWN)
def test_exceptions_refine_those_of_scrapy(cls):
    """So that RETRY_EXCEPTIONS and errbacks written for Scrapy's handlers work with ours."""
    fetch_error, base = cls.__bases__
    assert fetch_error is outcomes.FetchError
    assert base.__module__ == exceptions.__name__


@cases(
    "kind name",
    """
        DownloadTimeoutError           | timeout
        CannotResolveHostError         | dns_failed
        DownloadConnectionRefusedError | connect_refused
        ResponseDataLossError          | incomplete
        DownloadCancelledError         | too_large
        DownloadFailedError            | connection_lost
        UnsupportedURLSchemeError      | bad_url
        NotSupported                   | bad_url
        IgnoreRequest                  | ignored
        StopDownload                   | stopped
        TimeoutError                   | timeout
        ConnectionLost                 | other
        KeyError                       | other
        KeyboardInterrupt              | other
    """,
    vars(twisted.internet.error) | vars(builtins) | vars(exceptions),
)
def test_errors_of_others_have_names_too_bare_or_in_a_failure(kind, name):
    error = kind()
    assert outcome_of(error) == name
    assert outcome_of(Failure(error)) == name
    assert name in OUTCOMES


def test_a_foreign_attribute_is_no_outcome():
    error = RuntimeError("why")
    error.outcome = "made_up"
    assert outcome_of(error) == "other"
    error.outcome = ["unhashable"]
    assert outcome_of(error) == "other"


@each("status", 0, 99, 1000, -1)
def test_an_impossible_status_is_a_bad_answer(status):
    assert outcome_of(Response("http://a.test/", status=status)) == "bad_answer"

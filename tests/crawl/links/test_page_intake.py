"""Pages into a real content-seen test, and their links to a sink that keeps them."""

import errno

import pytest
import warc_checks
from seen_rig import InlineExecutor

from webcrawl.crawl.links.page_intake import PageIntake, PageResult, PageState
from webcrawl.crawl.links.submission import LinkRules, LinkSubmitter
from webcrawl.revisit.history import History
from webcrawl.seen.content import ContentSeen
from webcrawl.urls import HTTP_SCHEMES, Link
from webcrawl.urls.equivalence import Equivalence
from webcrawl.urls.filters.chain import FilterChain, scheme_filter
from webcrawl.urls.filters.table import FilterTable


class Desk:
    """An intake; *links* and *errors* are what came of it."""

    def __init__(self, path):
        self.links, self.errors = [], []
        self.error = None
        self.content = ContentSeen(path=path, executor=InlineExecutor())
        self.content.open(None)
        rules = LinkRules(
            filters=FilterTable([FilterChain([scheme_filter(HTTP_SCHEMES)])]),
            seed_filters=FilterTable([]),
            equivalence=Equivalence(frozenset()),
            max_redirects=3,
            obeys_nofollow=True,
            takes_robots_sitemaps=True,
            follows=True,
            keeps_cookies=False,
            kinds_of=lambda _: None,
        )
        links = LinkSubmitter(sink=self, rules=rules, clock=lambda: 0.0)
        self.intake = PageIntake(links=links, fail=self.errors.append)

    def submit(self, batch):
        if self.error is not None:
            raise self.error
        self.links += [link.url for link in batch.links]

    def take(self, url, body=b"", *links, state=PageState.STORED, history=None, **facts):
        """Take in the page *url*, in which *links* are found."""
        result = PageResult(state=state)
        page = warc_checks.page(url=url, body=body, **facts)

        def find(page):
            page.links = [*links]

        found, _ = self.intake.read(
            page, find, content=self.content, result=result, history=history
        )
        self.intake.submit(page, found, result=result, chain=b"")
        return result


@pytest.fixture
def desk(tmp_path):
    desk = Desk(tmp_path)
    yield desk
    desk.content.close()


def test_the_links_of_a_document_are_submitted_once(desk):
    first = desk.take("http://a.test/1", b"same", Link("http://a.test/x"))
    second = desk.take("http://a.test/2", b"same", Link("http://a.test/y"))
    assert desk.links == ["http://a.test/x"]
    assert [first.is_duplicate, second.is_duplicate] == [False, True]
    assert [first.claim, second.claim] == [first.document, 0]


def test_an_expired_page_gives_no_links_and_is_not_marked_as_seen(desk):
    desk.take("http://a.test/1", b"late", Link("http://a.test/x"), state=PageState.EXPIRED)
    assert desk.links == []
    assert not desk.take("http://a.test/1", b"late").is_duplicate


def test_a_page_whose_links_cannot_be_written_goes_back(desk):
    desk.error = OSError(errno.ENOSPC, "full")
    result = desk.take("http://a.test/1", b"new", Link("http://a.test/x"))
    assert result.state is PageState.PUT_BACK
    assert result.claim == result.document != 0  # for whoever takes it back
    assert desk.errors == [desk.error]


def test_visits_leave_nothing_in_the_content_seen_test_but_a_first_document(desk):
    first = desk.take("http://a.test/1", b"one", history=History())
    assert first.claim == first.document  # none was known
    known = History(stored_at=1.0, content=first.document)
    second = desk.take("http://a.test/1", b"two", history=known)
    assert (second.visit, second.claim) == ("changed", 0)
    assert not desk.take("http://a.test/2", b"two").is_duplicate
    # What was a duplicate is tested, and counts once it is none.
    copy = History(stored_at=1.0, content=first.document, is_duplicate=True)
    assert desk.take("http://a.test/3", b"two", history=copy).is_duplicate
    third = desk.take("http://a.test/3", b"three", history=copy)
    assert third.claim == third.document

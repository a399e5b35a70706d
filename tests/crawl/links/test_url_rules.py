"""The URL rules that the settings describe."""

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings
from text_tables import cases, each

from webcrawl.configuration.equivalences import equivalence_of
from webcrawl.crawl.links.url_rules import (
    filters_of,
    own_filters,
    redirect_filters_of,
    scope_of,
)
from webcrawl.errors import FatalError
from webcrawl.urls import SCHEMES, normalize
from webcrawl.urls.equivalence import DEFAULT
from webcrawl.urls.filters.table import RefusedUrlError

PORTS = {"ftp": 21, "gopher": 70, "https": 443}
TOO_MANY = (
    "URL_REFUSE has more than 100 regular expressions; EXCLUSION_FILE takes 10,000, one "
    "/EXPRESSION/ a line."
)
REFUSALS = {"URL_REFUSE": 101 * ["x"]}
LONG = "http://a.com/" + 2048 * "x"


def of_project(**values):
    settings = Settings()
    settings.setmodule("webcrawl.settings")
    settings.update(values)
    return settings


class Chain:
    """A table that answers for one URL."""

    def __init__(self, table):
        self.table = table

    def refusal(self, url, depth, page_host=""):
        via = f"http://{page_host}/" if page_host else ""
        _, ((_, why),) = self.table.judge([url], depth, via)
        return why


def chain_of(domains=(), *, schemes=("http", "https"), for_seeds=False, **values):
    table = filters_of(
        of_project(**values),
        schemes=frozenset(schemes),
        domains=domains,
        this_year=2026,
        for_seeds=for_seeds,
    )
    return Chain(table)


@cases(
    "url refused",
    """
        http://a.com/x?y=1 | None
        http://a.com/x.zip | None
        ftp://a.com/       | scheme
        http://a.com:25/   | port
        LONG               | length
        http://a.com/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/ | segments
        http://a.com/x/x/x/x/          | repeated_segments
        http://a.com/x/xx/xxx/xxxx     | growing_segments
        http://a.com/?x&x&x&x&x&x&x&x&x&x&x&x&x&x&x&x& | parameters
        http://x.x.x.x.x.x.x.x.x.a.com/ | host_labels
        http://a.com/?C=M;O=A          | listing_sort
        http://a.com/calendar/2031-12  | None
        http://a.com/calendar/2032-01  | calendar
        http://a.com/login?next=x      | action
    """,
    globals(),
)
def test_filters_that_are_on_by_default(url, refused):
    assert chain_of().refusal(url, 1000, "b.com") == refused


@cases(
    "values url refused",
    """
        {}                          | http://b.com/any/robots.txt?C=M;O=A | None
        {}                          | gopher://b.com/0/robots.txt | scheme
        {}                          | http://b.com:25/robots.txt | port
        {"URL_PORTS": "25"}         | http://b.com:25/robots.txt | None
        {}                          | LONG | length
        {"URL_MAX_LENGTH_BYTES": 0} | LONG | None
        {"URL_SCOPE": "seeds", "URL_REFUSE": "."} | http://b.com/robots.txt | None
    """,
    globals(),
)
def test_a_redirect_of_a_robots_txt_may_leave_the_scope_but_not_lead_anywhere(values, url, refused):
    schemes = frozenset({"http", "https", "ftp"})
    assert redirect_filters_of(of_project(**values), schemes=schemes).refusal(url, 0) == refused


@each("port", 3306, 6379, 25)
def test_links_to_databases_are_refused_and_seeds_are_not(port):
    url = f"http://a.com:{port}/"
    assert chain_of().refusal(url, 1, "b.com") == "port"
    assert redirect_filters_of(of_project(), schemes=frozenset({"http"})).refusal(url, 0) == "port"
    assert chain_of(for_seeds=True).refusal(url, 0) is None
    # URL_PORTS takes the place of the list, for links and seeds.
    assert chain_of(URL_PORTS=[port]).refusal(url, 1, "b.com") is None
    for for_seeds in (False, True):
        assert chain_of(URL_PORTS=[8080], for_seeds=for_seeds).refusal(url, 1) == "port"


@each("url", "ftp://a.com/", "gopher://a.com/", "https://a.com/")
def test_the_port_of_a_scheme_is_refused_to_other_schemes_only(url):
    chain = chain_of(schemes=("http", "https", "ftp", "gopher"))
    assert chain.refusal(url, 1, "b.com") is None
    assert normalize(f"{url[:-1]}:{PORTS[url.partition(':')[0]]}/", schemes=SCHEMES) == url
    assert chain.refusal("http://a.com:21/", 1, "b.com") == "port"


@cases(
    "values url refused",
    r"""
        {"URL_FILTERS": {"segments": None}} | http://a.com/1/2/3/4/5/6/7/8/9/1/2/3/4/5/6/7/8/9/1/2/3/
        | None
        {"URL_MAX_DEPTH": "2"}                      | http://a.com/                 | depth
        {"URL_FILTERS": {"listing_sort": None}}     | http://a.com/?C=M;O=A         | None
        {"URL_REFUSED_EXTENSIONS": ".zip, GZ"}      | http://a.com/x.gz             | extension
        {"URL_PORTS": "8080"}                       | http://a.com:8081/            | port
        {"URL_FILTERS": {"growing_segments": None}} | http://a.com/x/xx/xxx/xxxx    | None
        {"URL_RESTRICT_TO": r"http://b\.com/x{1,2}.*"} | http://a.com/              | restrict_to
        {"URL_RESTRICT_TO": r"http://b\.com/x{1,2}.*"} | http://b.com/xx/y          | None
        {"URL_REFUSE": ["/a/", "/b/"]}     | http://a.com/x/b/    | pattern
        {"URL_REFUSE": '["/a,/", "/b/"]'}  | http://a.com/x/b/    | pattern
        {"URL_REFUSE": "[a],{1}"}          | http://a.com/xa,     | pattern
        {"URL_SCOPE": "seeds"}             | http://www.a.com/    | None
        {"URL_SCOPE": "seeds"}             | http://c.com/        | whitelist
        {"URL_SCOPE": "domain"}            | http://b.com/        | own_domain
        {"URL_SCOPE": "domain"}            | http://www.a.com/    | None
    """,
)
def test_settings_choose_the_filters(values, url, refused):
    assert chain_of(domains={"a.com", "b.com"}, **values).refusal(url, 3, "a.com") == refused


@cases(
    "values sentence",
    """
        {"URL_SCOPE": []}        | URL_SCOPE must be open, seeds or domain, not ''.
        {"URL_PORTS": "http"}    | URL_PORTS must be port numbers, not 'http'.
        {"URL_PORTS": [70000]}   | URL_PORTS must be port numbers, not [70000].
        {"URL_RESTRICT_TO": "("}
    | URL_RESTRICT_TO has '(', which is not valid: missing ), unterminated subpattern at position 0.
        REFUSALS | TOO_MANY
    """,
    globals(),
)
def test_impossible_url_settings_end_with_one_sentence(values, sentence):
    with pytest.raises(FatalError) as raised:
        chain_of(**values)
    assert str(raised.value) == sentence


def test_scope_is_open_by_default():
    assert scope_of(of_project()) == "open"
    assert scope_of(Settings()) == "open"


def test_equivalences_of_the_settings_are_the_default_rules():
    assert frozenset(of_project().getlist("URL_EQUIVALENCES")) == DEFAULT
    one = equivalence_of(of_project())
    assert one.comparison_form("http://www.a.com//x?b=1&a=%7e") == "http://www.a.com/x?a=~&b=1"
    assert (
        equivalence_of(of_project(URL_EQUIVALENCES="")).comparison_form("http://a.com//")
        == "http://a.com//"
    )


def test_host_rules_come_from_a_file(tmp_path):
    path = tmp_path / "hostResolver.properties"
    path.write_text("startsWith(www.)=\n")
    one = equivalence_of(of_project(URL_HOST_RULES_FILE=str(path)))
    assert one.comparison_form("http://www.a.com/") == "http://a.com/"


def test_a_line_that_is_no_rule_is_one_sentence(tmp_path):
    path = tmp_path / "rules"
    path.write_text("\nwww.\n")
    sentence = r"^URL_HOST_RULES_FILE: .*/rules, line 2: 'www.' is not a rule"
    with pytest.raises(FatalError, match=sentence):
        equivalence_of(of_project(URL_HOST_RULES_FILE=str(path)))


class Mine:
    """A filter of a user's."""

    def process_url(self, url, via):  # the interface
        raise RefusedUrlError("mine")


class NoFilter:
    """It has no method process_url."""


class Async:
    """Its method is a coroutine."""

    async def process_url(self, url, via):  # the interface
        return url


class Made(Mine):
    """It needs what nobody gives it."""

    def __init__(self, hosts):
        self.hosts = hosts


class Scheme(Mine):
    """Its name is that of a built-in filter."""


MINE = f"{__name__}.Mine"


def with_own(**filters):
    settings = of_project(URL_FILTERS=filters)
    own = own_filters(Crawler(Spider, settings))
    schemes = frozenset({"http"})
    return Chain(filters_of(settings, schemes=schemes, this_year=2026, own=own))


def test_filters_of_users_stand_where_their_numbers_say():
    url = "http://a.com/?C=M;O=A"
    assert with_own(**{MINE: 1}).refusal(url, 1) == "mine"
    assert with_own(**{MINE: 5000}).refusal(url, 1) == "listing_sort"
    assert with_own(**{MINE: 5000, "listing_sort": None}).refusal(url, 1) == "mine"
    assert with_own(listing_sort=None).refusal(url, 1) is None


@cases(
    "name position sentence",
    """
        Mine     | first | URL_FILTERS: the position of .*Mine must be a number, not 'first'
        calender | None  | URL_FILTERS switches off 'calender', which is not a filter
        lenght   | 1     | URL_FILTERS names 'lenght', which cannot be loaded: .*
        NoFilter | 1     | URL_FILTERS is .*, which lacks def process_url
        Async    | 1     | URL_FILTERS is .*, which lacks def process_url
        Made     | 1     | .* cannot be used: .* missing 1 required .* 'hosts'
        Scheme   | 1     | URL_FILTERS: .*Scheme needs a unique name .*'scheme'
    """,
)
def test_what_is_no_filter_ends_with_one_sentence(name, position, sentence):
    path = f"{__name__}.{name}" if name in globals() else name
    with pytest.raises(FatalError, match=rf"^{sentence}\.$"):
        with_own(**{path: position})

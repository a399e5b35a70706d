"""The table of URL filters: chains of built-in ones and filters of users, in order."""

from text_tables import each

from webcrawl.urls import normalize
from webcrawl.urls.filters.chain import FilterChain, UrlFilter, length_filter
from webcrawl.urls.filters.scope import own_domain_filter, pattern_filter, patterns_from
from webcrawl.urls.filters.table import FilterTable, OwnFilter, RefusedUrlError

VIA = "http://a.test/page"
CHAIN = FilterChain([length_filter(40), own_domain_filter()], max_depth=3)


class Own:
    """A filter that does what *does* says with a URL, and notes what it was asked."""

    def __init__(self, does):
        self.does, self.asked = does, []

    def process_url(self, url, via):
        self.asked.append((url, via))
        return self.does(url)


def table(*stages, sampled=lambda *_: None):
    return FilterTable(
        [
            OwnFilter(f"own{n}", one) if isinstance(one, Own) else one
            for n, one in enumerate(stages)
        ],
        form=normalize,
        sampled=sampled,
    )


def secure(url):
    return url.replace("http:", "https:", 1)


def refuse(url):
    raise RefusedUrlError(f"as {url}")


def test_without_filters_of_users_the_urls_are_the_very_list():
    urls = ["http://a.test/", "http://b.test/"]
    same, answers = table(CHAIN).judge(urls, 1, VIA)
    assert same is urls
    assert answers == [("a.test", None), ("b.test", "own_domain")]


def test_a_filter_rewrites_and_the_result_is_normalized():
    own = Own(lambda url: url.upper().replace("HTTP:", "https:"))
    urls, answers = table(own, CHAIN).judge(["http://a.test/x", "http://www.a.test/"], 1, VIA)
    assert urls == ["https://a.test/X", "https://www.a.test/"]
    assert answers == [("a.test", None), ("www.a.test", None)]
    assert own.asked == [("http://a.test/x", VIA), ("http://www.a.test/", VIA)]


@each(
    "to why",
    ("http://b.test/", "own_domain"),
    ("http://a.test/" + 40 * "x", "length"),
    ("mailto:x", "own1"),
)
def test_what_is_rewritten_behind_the_built_in_filters_passes_them_again(to, why):
    _, ((_, refused),) = table(CHAIN, Own(lambda _: to)).judge(["http://a.test/"], 1, VIA)
    assert refused == why


def test_filters_of_users_are_asked_once_each_in_their_order():
    first, second = Own(secure), Own(lambda url: f"{url}2")
    urls, _ = table(first, CHAIN, second).judge(["http://a.test/"], 1, VIA)
    assert urls == ["https://a.test/2"]
    assert (first.asked, second.asked) == ([("http://a.test/", VIA)], [("https://a.test/", VIA)])


def test_a_refusal_ends_the_way_of_a_url():
    last = Own(str)
    judged = table(Own(refuse), last, CHAIN)
    assert judged.judge(["http://a.test/"], 9, "")[1] == [("a.test", "own0")]
    assert last.asked == []
    assert judged.refused == {"own0": 1}


def test_an_exception_refuses_and_is_logged_once(caplog):
    lines = []
    judged = table(Own(lambda _: 1 / 0), sampled=lambda *line: lines.append(line))
    judged.judge(["http://a.test/", "http://a.test/2"], 1, VIA)
    assert [line[4] for line in lines] == 2 * ["ZeroDivisionError('division by zero')"]
    assert [record.getMessage() for record in caplog.records] == [
        "The URL filter own0 failed for http://a.test/; URL refused"
    ]


def test_the_sample_is_bounded_and_names_the_expression():
    lines = []
    chain = FilterChain([pattern_filter(patterns_from(["/x/", "[0-9]"]))])
    judged = table(chain, sampled=lambda *line: lines.append(line))
    for n in range(1000):
        judged.judge([f"http://a.test/{n}"], 1, VIA)
    assert [line[1] for line in lines] == [*range(1, 21), 32, 64, 128, 256, 512]
    assert lines[0] == ("pattern", 1, "http://a.test/0", VIA, "[0-9]")
    assert judged.refused["pattern"] == 1000


def test_without_any_filter_all_pass_with_their_hosts():
    urls, answers = table().judge(["http://a.test/", "http://b.test:8/"], 1, VIA)
    assert answers == [("a.test", None), ("b.test", None)]
    assert [*urls] == ["http://a.test/", "http://b.test:8/"]


def test_a_filter_by_url_may_say_why():
    chain = FilterChain([UrlFilter("mine", lambda url: "has x" if "x" in url.text else "")])
    assert chain.refusal("http://a.test/x", 0) == "mine"
    assert chain.reason("mine", "http://a.test/x") == "has x"
    assert chain.refusal("http://a.test/", 0) is None


def test_what_would_be_rewritten_to_where_it_comes_from_stays_as_it_is():
    own = Own(secure)
    judged = table(CHAIN, own)
    urls, answers = judged.judge(
        ["http://a.test/", "http://a.test/2", "http://b.test/"],
        1,
        VIA,
        is_hop={"https://a.test/"}.__contains__,
    )
    assert urls == ["http://a.test/", "https://a.test/2", "http://b.test/"]
    assert answers == [("a.test", None), ("a.test", None), ("b.test", "own_domain")]

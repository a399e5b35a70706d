"""Redirects that lead back once a cookie is set, judged by what the server was asked for."""

import json
from collections import Counter

from crawling import crawl_of_urls, finish, stats_of
from http_site import HttpSite, serving
from text_tables import each, table

from webcrawl.crawl.lease.outcome_log import INFO_LOG

# By path and cookies of a request: where the answer leads, and what cookie it sets. To all other
# requests the answer is a page. A browser reaches all pages but those behind loops.
# httrack #15; norconex #361, where the first of the two sets it, and where the second does; what is
# new, which is fetched once, from wherever links lead to it; loops from /ever on.
REDIRECTS = table("""
    /self   |       | /self   | seen=1; Path=/self
    /first  |       | /check  | seen=1; Path=/first
    /check  |       | /first  |
    /second |       | /login  |
    /login  |       | /second | seen=1; Path=/second
    /twice  |       | /twice  | one=1; Path=/twice
    /twice  | one=1 | /twice  | two=1; Path=/twice
    /moved  |       | /page   | seen=1; Path=/moved
    /ever   |       | /ever   | other=1; Path=/elsewhere
    /plain  |       | /plain  |
    /there  |       | /back   |
    /back   |       | /there  |
""")
REDIRECTS = {(path, cookie): answer for path, cookie, *answer in REDIRECTS}
SEEDS = ["/self", "/first", "/second", "/twice", "/ever", "/plain", "/there", "/moved", "/page"]
ONCE = Counter({"/page", *(path for path, _ in REDIRECTS)})


@each(
    "cookies asked pages refused",
    (
        1,
        ONCE + Counter({"/self": 1, "/first": 1, "/second": 1, "/twice": 2, "/ever": 3}),
        {"/self", "/first", "/second", "/twice", "/page"},
        {"redirect_loop": 2, "too_many_redirects": 1},
    ),
    (0, ONCE, {"/page"}, {"redirect_loop": 7}),
)
def test_a_redirect_with_a_cookie_may_lead_back(tmp_path, cookies, asked, pages, refused):
    def answer(request):
        if request.path == "/robots.txt":
            return 404, {}, b""
        cookie = request.headers.get("Cookie", "")
        if (request.path, cookie) not in REDIRECTS:
            return 200, {}, f"the page {request.path}".encode()
        target, given = REDIRECTS[request.path, cookie]
        return 302, {"Location": target, **({"Set-Cookie": given} if given else {})}, b""

    job = tmp_path / "job"
    with serving(HttpSite(answer)) as site:
        urls = [site.url + path for path in SEEDS]
        settings = {"COOKIES_ENABLED": cookies, "REDIRECT_MAX_TIMES": 3}
        finish(crawl_of_urls(tmp_path, *urls, **settings))
        assert Counter(site.asked) - Counter({"/robots.txt": 1}) == asked
        lines = map(json.loads, (job / INFO_LOG).read_bytes().splitlines())
        ends = {one["url"].removeprefix(site.url) for one in lines if one["outcome"] == "http_200"}
        assert ends == pages
    stats = stats_of(job)
    assert {why: stats[f"urls/refused/{why}"] for why in refused} == refused

"""The key of politeness, and the scope of a robots.txt."""

from text_tables import each, table

from webcrawl.urls import host_of, origin_of


@each(
    "url host origin",
    *table("""
        http://a.test/              | a.test            | http://a.test
        https://a.test:8443/x:y/    | a.test            | https://a.test:8443
        http://xn--mnchen-3ya.de/   | xn--mnchen-3ya.de | http://xn--mnchen-3ya.de
        http://127.0.0.1:8080/      | 127.0.0.1         | http://127.0.0.1:8080
        http://[2001:db8::1]/       | 2001:db8::1       | http://[2001:db8::1]
        http://[::1]:81/x           | ::1               | http://[::1]:81
        http://under_score.test/    | under_score.test  | http://under_score.test
        http://a.test./x            | a.test            | http://a.test.
        HTTP://A.Test?x=/           | a.test            | http://a.test
        http://user:80@a.test/      | a.test            | http://a.test
        http://user:pass@a.test:80/ | a.test            | http://a.test:80
        ftp://a.test/f              | a.test            | ftp://a.test
        ftp://a.test:2121/          | a.test            | ftp://a.test:2121
        gopher://a.test:7070/1/x    | a.test            | gopher://a.test:7070
        gopher://[::1]/             | ::1               | gopher://[::1]
    """),
)
def test_host_and_origin_of(url, host, origin):
    assert host_of(url) == host
    assert origin_of(url) == origin


@each("url", "", "mailto:a@b.test", "/path", "//a.test/")
def test_url_without_authority_has_no_host(url):
    assert host_of(url) == ""
    assert origin_of(url) == ""

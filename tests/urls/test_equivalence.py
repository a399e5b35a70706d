"""Which spellings are one URL, and that comparing never leads to another server."""

import doctest
import random
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples, urls
from text_tables import cases, each, pieces, table

from webcrawl.urls import equivalence, host_of, normalize, origin_of
from webcrawl.urls.equivalence import DEFAULT, RULES, STANDARD, Equivalence
from webcrawl.urls.filters.host_rules import UrlHostRules

ALL = Equivalence(RULES)

any_text = st.text(st.characters(codec=None))  # surrogates included
rule_sets = st.sets(st.sampled_from(sorted(RULES))).map(frozenset)
# What the rules look for, in pieces that make other pieces when something between them goes.
PIECES = r"""
    / // ? & = ; # % %4 %41 %7e %C3%a9 %2F %25 34 31 index .html default. aspx /index.php /(S(a1))
    (S( ;jsessionid= a A 0 sid= 0123456789abcdefA utm gclid b=2 a=1 :// :80 @ \ _ ß s= PHPSESSID .
"""
rest = st.lists(st.sampled_from([*pieces(PIECES), "utm_", "\udcff"]), max_size=14).map("".join)
links = st.builds("{}{}".format, st.sampled_from(["http://a.test/", "https://b.test:81/"]), rest)


def test_examples_of_the_documentation_hold():
    assert doctest.testmod(equivalence) == (0, 13)


@each("rule", *sorted(RULES - STANDARD))
def test_every_rule_has_an_example_and_says_what_it_risks(rule):
    assert equivalence.__doc__ is not None
    section = equivalence.__doc__.partition(f"\n{rule}: ")[2].partition("\n>>> ")
    assert section[1]
    assert "isks" in section[0] or "Off by default" in section[0]


@cases(
    "url form",
    """
        http://a.test/x;JSESSIONID=44f3a9c08e1d72b5?b | http://a.test/x?b
        http://a.test/x;JSESSIONID=44f3a9c08e1d72b5.node1?b | http://a.test/x?b
        http://a.test/x;JSESSIONID=1016 | http://a.test/x;JSESSIONID=1016
        http://a.test/a;jsessionid=44f3a9c08e1d72b5/b;v=2 | http://a.test/a/b;v=2
        http://a.test/;sid=44f3a9c08e1d72b5 | http://a.test/
        http://a.test/;sid=word | http://a.test/;sid=word
        http://a.test/(S(lit3py55t21z5v55vlm25s55))/x.aspx | http://a.test/x.aspx
        http://a.test/(X(1)S(lit3py55t21z5v55vlm25s55))/x | http://a.test/x
        http://a.test/(see(here))/x | http://a.test/(see(here))/x
        http://a.test/?s=7215ee9c7d9dc229d2921a40e899ec5f | http://a.test/
        http://a.test/?s=search | http://a.test/?s=search
        http://a.test/?s=antidisestablishment | http://a.test/?s=antidisestablishment
        http://a.test/?s=20240501123456789 | http://a.test/?s=20240501123456789
        http://a.test/?CFID=1016&CFTOKEN=58842731&id=3 | http://a.test/?id=3
        http://a.test/?CFID=1&CFTOKEN=2&id=3 | http://a.test/?CFID=1&CFTOKEN=2&id=3
        http://a.test/?CFID=1016&id=3 | http://a.test/?CFID=1016&id=3
        http://a.test/?PHPSESSID=1016 | http://a.test/?PHPSESSID=1016
        http://a.test/(S(list))/x.aspx | http://a.test/(S(list))/x.aspx
        http://a.test/x?SessionID=1016 | http://a.test/x?SessionID=1016
        http://a.test/x?SessionID=550e8400-e29b-41d4-a716-446655440000 | http://a.test/x
        http://a.test/?session=keynote-2023-machine | http://a.test/?session=keynote-2023-machine
        http://a.test/?sid=machinelearning2023 | http://a.test/?sid=machinelearning2023
        http://a.test/SessionDetails1.aspx?SessionID=550e8400-e29b-41d4-a716-446655440000
            | http://a.test/SessionDetails1.aspx?SessionID=550e8400-e29b-41d4-a716-446655440000
        http://a.test/?UTM_Source=x | http://a.test/
        http://a.test/?gclid | http://a.test/
        http://a.test/? | http://a.test/
        http://a.test/?&& | http://a.test/
        http://a.test/?z&a=1 | http://a.test/?z&a=1
        http://a.test/?c=%7E&%61=1 | http://a.test/?a=1&c=~
        http://a.test/%zz%41 | http://a.test/%zzA
        http://a.test/%%41%4%61%4a | http://a.test/%%41%4%61J
        http://a.test/%%c3 | http://a.test/%%C3
        http://a.test/100%?q=%c3 | http://a.test/100%?q=%C3
        http://a.test/web/1999/http://b.test/ | http://a.test/web/1999/http:/b.test/
        http://a.test/index.html | http://a.test/index.html
        http://a.test/ABC | http://a.test/ABC
        ftp://a.test//x?b=1&a=2 | ftp://a.test//x?b=1&a=2
        gopher://a.test/1//x%7E | gopher://a.test/1//x%7E
        gopher://a.test/1?b=1&a=2 | gopher://a.test/1?b=1&a=2
                LONG | LONG
    """,
    {"LONG": "http://a.test/?" + 200 * "&" + "a"},
)
def test_form_by_the_default_rules(url, form):
    assert Equivalence().comparison_form(url) == form


@cases(
    "url form",
    """
        http://a.test/index.htm?x=1                           | http://a.test/?x=1
        http://a.test/a/INDEX.PHP5                            | http://a.test/a/
        http://a.test/index.shtml;jsessionid=44f3a9c08e1d72b5 | http://a.test/
        http://a.test/index.xml                               | http://a.test/index.xml
        http://a.test/myindex.html                            | http://a.test/myindex.html
        http://a.test/index.html/x                            | http://a.test/index.html/x
        http://a.test/default.asp                             | http://a.test/
    """,
)
def test_index_names_are_those_of_pages(url, form):
    assert Equivalence(DEFAULT | {"index_names"}).comparison_form(url) == form


def test_lower_case_leaves_escapes_as_percent_case_has_them():
    both = Equivalence(frozenset({"lower_case", "percent_case", "unreserved"}))
    assert both.comparison_form("http://a.test/%C3%A9%41B?C=%c3") == "http://a.test/%C3%A9ab?C=%C3"


@each("rule", *sorted(RULES - STANDARD))
def test_rule_that_is_off_changes_nothing(rule):
    url = "http://a.test//X;jsessionid=44f3a9c08e1d72b5/%7e/index.html?utm_source=x&b=%c3&&a=1&sid=44f3a9c08e1d72b5"
    assert ALL.comparison_form(url) == "http://a.test/x/~/?a=1&b=%C3"
    assert Equivalence(RULES - {rule}).comparison_form(url) != ALL.comparison_form(url)


@each(
    "name alphabet length caught",
    *table("""
        JSESSIONID | 0123456789ABCDEF                                               | 32 | 0.999
        PHPSESSID  | 0123456789abcdefghijklmnopqrstuv                               | 26 | 0.99
        osCsid     | 0123456789abcdef                                               | 32 | 0.999
        sid        | 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ | 32 | 0.98
        SessionID  | abcdefghijklmnopqrstuvwxyz012345                               | 24 | 0.97
    """),
)
def test_true_session_ids_are_dropped_whatever_they_are(name, alphabet, length, caught):
    rng, one = random.Random(13), Equivalence()
    drawn = ["".join(rng.choices(alphabet, k=int(length))) for _ in range(2000)]
    forms = [one.comparison_form(f"http://a.test/x?{name}={value}&t=1") for value in drawn]
    assert forms.count("http://a.test/x?t=1") >= float(caught) * len(drawn)


@given(any_text | links | urls())
def test_no_rules_no_change(url):
    assert Equivalence(frozenset()).comparison_form(url) == url
    assert Equivalence(STANDARD).comparison_form(url) == url


def test_unknown_rule_is_named():
    with pytest.raises(ValueError, match=r"^Unknown URL rule: trailing_slash. The rules are "):
        Equivalence(frozenset({"trailing_slash", "tracking"}))


@examples(300)
@given(any_text | links, rule_sets)
def test_comparison_forms_never_raise_and_are_final(url, rules):
    one = Equivalence(rules)
    form = one.comparison_form(url)
    assert one.comparison_form(form) == form
    assert Equivalence(rules).comparison_form(form) == form


@cases(
    "url",
    """
        http://a.test/%%34%31
        http://a.test/%%411
        http://a.test/;jsessionid=%4?%41
        http://a.test/(S(a1));jsessionid=1/x
        http://a.test/?utm_=%&%41&a=%4%31
        http://a.test/;jsessionid;jsessionid=1=2
        http://a.test/;s/(S(a1))/id=0123456789abcdef0
        http://a.test/?utm_=%26&
        http://a.test/?sid=%30123456789abcdefA
        http?b=1&a=1
        http://a.test?b=1&a=1
    """,
)
def test_comparison_forms_of_odd_urls_are_final(url):
    form = ALL.comparison_form(url)
    assert ALL.comparison_form(form) == form


@examples(300)
@given(links | urls() | any_text, rule_sets)
def test_server_never_changes(text, rules):
    url = normalize(text)
    if url is not None:
        form = Equivalence(rules).comparison_form(url)
        assert origin_of(form) == origin_of(url)
        assert host_of(form) == host_of(url)
        assert form[: len(origin_of(form)) + 1] == url[: len(origin_of(url)) + 1]
        assert form.isascii()


@given(st.text("abc%/~-._é", max_size=12))
def test_spellings_that_mean_the_same_bytes_are_one(path):
    plain = normalize("http://a.test/" + quote(path, safe=""))
    every = normalize("http://a.test/" + "".join(f"%{byte:02x}" for byte in path.encode()))
    if plain is not None and every is not None:
        assert Equivalence().comparison_form(plain) == Equivalence().comparison_form(every)


def test_answers_about_parameter_names_are_remembered_within_bounds():
    one = Equivalence()
    for number in range(2 * equivalence._CACHED_NAMES):
        assert one.comparison_form(f"http://a.test/?p{number}=1") == f"http://a.test/?p{number}=1"
    one.comparison_form(f"http://a.test/?{'x' * 60}=1")
    assert len(one._significant) <= equivalence._CACHED_NAMES
    assert max(map(len, one._significant)) <= 50


def test_host_rules_change_the_compared_form_alone():
    one = Equivalence(hosts=UrlHostRules.parse("startsWith(www.)=\nsynonym(mirror.test)=a.test"))
    assert one.comparison_form("http://www.a.test/x") == "http://a.test/x"
    assert one.comparison_form("https://www.a.test:8443/x//y?") == "https://a.test:8443/x/y"
    assert one.comparison_form("ftp://mirror.test/x") == "ftp://a.test/x"
    assert one.comparison_form("gopher://mirror.test:7070/1/x") == "gopher://a.test:7070/1/x"
    short = Equivalence(hosts=UrlHostRules.parse("synonym(m)=a"))
    assert short.comparison_form("ftp://m/x/y") == "ftp://a/x/y"
    assert one.comparison_form("http://[::1]:81/") == "http://[::1]:81/"
    assert one.comparison_form("http://a.test/") == "http://a.test/"

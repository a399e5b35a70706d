"""Host names that are taken for one, by rules in LARM's own format."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import hosts
from text_tables import cases, each, table

from webcrawl.urls.filters import host_rules
from webcrawl.urls.filters.host_rules import UrlHostRules

# As printed in LARM's overview, section "Configuring HostResolver in a config file".
LARM = """\
#hostResolver.properties
#format:
# startsWith(part1) = part2
#  if host starts with part1, this part will be replaced by part2
# endsWith(part1) = part2
#  if host ends with part1, this part will be replaced by part2.
#  This is done after startsWith was processed
# synonym(host1) = host2
# the keywords startsWith, endsWith and synonym are case sensitive
#  host1 will be replaced with host2. this is done _after_ startsWith
#  and endsWith was processed

startsWith(www.)=
startsWith(www2.)=
startsWith(w3.)=
endsWith(.somehost.com)=.somhost2.com
synonym(daedalus.apache.org)=apache.org
"""


@each(
    "host canonical",
    *table("""
        www.cnn.com             | cnn.com
        cnn.com                 | cnn.com
        www2.cnn.com            | cnn.com
        w3.org                  | w3.org
        w3.example.org          | example.org
        www3.cnn.com            | www3.cnn.com
        a.somehost.com          | a.somhost2.com
        www.a.somehost.com      | a.somhost2.com
        somehost.com            | somehost.com
        daedalus.apache.org     | apache.org
        www.daedalus.apache.org | apache.org
        www.com                 | www.com
        www.                    | www.
        127.0.0.1               | 127.0.0.1
        """),
    ("", ""),
)
def test_file_written_for_larm_works(tmp_path, host, canonical):
    path = tmp_path / "hostResolver.properties"
    path.write_text(LARM)
    rules = UrlHostRules.read(path)
    assert len(rules) == 5
    assert rules.canonical(host) == canonical


def test_rules_are_applied_in_larm_s_order_once_each():
    rules = UrlHostRules.parse("synonym(b.x.test)=c.test\nendsWith(.org)=.test\nstartsWith(a)=b.x")
    assert rules.canonical("a.org") == "a.org".replace("a.org", "b.test").replace(
        "b.test", "c.test"
    )
    assert UrlHostRules.parse("startsWith(www.)=").canonical("www.www.a.test") == "www.a.test"


def test_longest_rule_that_fits_is_taken():
    rules = UrlHostRules.parse(
        "startsWith(w)=x\nstartsWith(www.)=\nendsWith(t)=u\nendsWith(.test)=.org"
    )
    assert rules.canonical("www.a.test") == "a.org"
    assert rules.canonical("web.a.net") == "xeb.a.neu"


@cases(
    "line",
    r"""
        startsWith(www.)=
        startsWith(www.)
        startsWith(www,)=
        "  startsWith(WWW.) : "
        "startsWith(www.) "
        startsWith(\u0077ww.)\
        "starts\\\n   With(www.)="
        "\ufeffstartsWith(www.)="
        "startsWith(www.)=\r\n\r\n! a comment\r\n# startsWith(a.)="
    """,
)
def test_properties_are_read_as_java_reads_them(line, tmp_path):
    path = tmp_path / "rules"
    path.write_bytes(line.encode())
    assert UrlHostRules.read(path).canonical("www.a.test") == "a.test"


def test_commas_stand_for_dots_on_both_sides():
    rules = UrlHostRules.parse("synonym(daedalus,apache.org) = apache,org")
    assert rules.canonical("daedalus.apache.org") == "apache.org"


def test_international_names_may_be_written_as_such():
    rules = UrlHostRules.parse("synonym(bücher.test)=münchen.test\nendsWith(.中国)=.cn")
    assert rules.canonical("xn--bcher-kva.test") == "xn--mnchen-3ya.test"
    assert rules.canonical("a.xn--fiqs8s") == "a.cn"


@cases(
    "text sentence",
    r"""
        ends(a)=            | rules, line 1: 'ends' must be startsWith, endsWith or synonym.
        startsWith()=x      | rules, line 1: startsWith() has no host.
        synonym(a.test)=    | rules, line 1: synonym(a.test) has no other host.
        synonym(a.test)=b/c | rules, line 1: 'b/c' is not a valid part of a host name.
        synonym(a b)=c      | rules, line 1: 'a b' is not a valid part of a host name.
        synonym(ü b)=c      | rules, line 1: 'ü b' is not a valid part of a host name.
                "\n# x\nwww.a.test"
            | rules, line 3: 'www.a.test' is not a rule such as startsWith(www.)=.
        LONG_PART | LONG_SAID
        LONG_RULE | rules, line 2: a rule may have at most 1000 characters.
        LONG_LINE | rules, line 1: a rule may have at most 1000 characters.
    """,
    {
        "LONG_PART": "endsWith(a)=" + 254 * "x",
        "LONG_SAID": f"rules, line 1: '{80 * 'x'}' is not a valid part of a host name.",
        "LONG_RULE": "\nstartsWith(a\\\n.)=" + 999 * "x",
        "LONG_LINE": 2000 * "x\\\n",
    },
)
def test_what_is_no_rule_is_told_with_its_line(text, sentence):
    with pytest.raises(ValueError, match="line") as raised:
        UrlHostRules.parse(text, name="rules")
    assert str(raised.value) == sentence


def test_file_that_is_not_utf_8_is_told_with_its_line(tmp_path):
    path = tmp_path / "rules"
    path.write_bytes(b"# caf\xc3\xa9\n\n# caf\xe9\n")
    with pytest.raises(ValueError, match="line 3: not valid UTF-8"):
        UrlHostRules.read(path)


def test_files_and_rules_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(host_rules, "MAX_RULES", 3)
    text = "".join(f"synonym(a{number}.test)=a.test\n" for number in range(4))
    with pytest.raises(ValueError, match="line 4: a file may have at most 3 rules"):
        UrlHostRules.parse(text)
    monkeypatch.setattr(host_rules, "_MAX_BYTES", 10)
    path = tmp_path / "rules"
    path.write_text(text)
    with pytest.raises(ValueError, match="it is not a file of host rules"):
        UrlHostRules.read(path)


@given(st.text(st.characters(codec=None)) | hosts(), st.sampled_from(["", "x", ".", "a.b"]))
def test_no_host_raises_and_none_becomes_less_than_a_name(host, to):
    rules = UrlHostRules.parse(f"startsWith(w)={to}\nendsWith(t)={to}\nstartsWith(0)=")
    canonical = rules.canonical(host)
    assert canonical == host or "." in canonical.strip(".")


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_is_rules_or_one_sentence(text):
    sentence = ""
    try:
        UrlHostRules.parse(text)
    except ValueError as error:
        sentence = str(error)
    assert sentence == "" or sentence.startswith("host rules, line ")
    assert "\n" not in sentence

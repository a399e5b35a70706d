"""Tests of host policies: which table applies, what is not allowed, and their effect on a crawl."""

import gzip
import itertools
import logging
from collections import defaultdict

import pytest
import warm
from crawling import simulated, stats_of
from scrapy.settings import Settings
from text_tables import cases, each

from webcrawl.errors import FatalError
from webcrawl.frontier import HostFacts, LargestDelay, Supply
from webcrawl.hosts.host_rules import HostRules
from webcrawl.hosts.politeness.exclusions import exclusion_file
from webcrawl.hosts.politeness.host_policies import CredentialGate, HostDelays, policy_file
from webcrawl.net.outcomes import UnverifiedError

SECRET = "s3cr3t-value"


@pytest.fixture
def opened(tmp_path, clock):
    """Return a function that opens a file with a text."""

    def make(text, mode=0o600, **more):
        path = tmp_path / "hosts.toml"
        path.write_text(text)
        path.chmod(mode)
        settings = Settings()
        settings.setmodule("webcrawl.settings")
        settings.setdict({"HOSTS_POLICY_FILE": path, "LINK_KINDS": ["a", "css"]})
        settings.setdict({"POLITENESS_MIN_DELAY": 3, **more})
        rules = HostRules(
            exclusions=exclusion_file(settings),
            blocklists={},
            policies=policy_file(settings, clock=clock),
        )
        rules.open()
        return rules

    return make


@each(
    "host table",
    ("www.a.test", "=www.a.test"),
    ("x.www.a.test", "a.test"),
    ("a.test", "a.test"),
    ("b.test", "test"),
    ("shop-1.b.test", "shop-*.b.test"),
    ("shop-1.a.test", "a.test"),  # "shop-*" has as many characters as this domain
    ("a.example", ""),
    ("", ""),
)
def test_the_most_specific_table_applies(opened, host, table):
    titles = ("=www.a.test", "A.test.", "test", "shop-*.b.test", "shop-*")
    rules = opened("\n".join(f'["{one}"]\nbudget = {n}' for n, one in enumerate(titles)))
    assert rules.table_of(host) == table
    assert len(rules.policies.rules) == 5


def test_a_pattern_may_be_all_hosts(opened):
    rules = opened('["*"]\nbudget = 2\n["a.test"]\nbudget = 3')
    assert [rules.host_policy(host).budget for host in ("b.test", "a.test")] == [2, 3]


def test_a_line_that_is_not_utf_8_invalidates_the_file(opened, tmp_path):
    rules = opened("")
    (tmp_path / "hosts.toml").write_bytes(b'["a.test"]\nbudget = 1\ndelay = 9  # M\xfcller\n')
    with pytest.raises(FatalError, match="cannot be used: line 3: 'utf-8' codec"):
        rules.open()


def test_a_table_applies_whole(opened):
    rules = opened('["a.test"]\ndelay = 9\n["=www.a.test"]\nbudget = 2')
    assert rules.host_policy("www.a.test").delay is None
    assert rules.host_policy("www.a.test").budget == 2


TABLES = [
    ("delais = 3", "unknown field `delais`"),
    ("delay = -1", ">= 0"),
    ("delay = nan", "below POLITENESS_MIN_DELAY|>= 0"),
    ("delay = 1", "needs owner_allows = true"),
    ('link_kinds = ["img"]', "LINK_KINDS, which does not have img"),
    (f'headers = {{User-Agent = "{SECRET}"}}', "User-Agent cannot be set"),
    (f'headers = {{X-Key = "{SECRET}\\r\\nHost: b"}}', "'X-Key' is not valid"),
    (f'cookies = {{a = "{SECRET};"}}', "cookie 'a' is not valid"),
    (f'proxy = "socks://{SECRET}@b.test"', "proxy is not an http or https URL"),
    (f'headers = {{X-Key = "{SECRET}" "', "it is not valid TOML"),
    (f'headers = "{SECRET}"', "Expected `object`"),
]
# No host, domain or pattern.
TITLES = ["a b", "http://a.test/", "*a*b*c*", "[*", ""]


@each(
    "text why",
    *((f'["a.test"]\n{table}', why) for table, why in TABLES),
    *((f'["{title}"]\nbudget = 1', "table ") for title in TITLES),
    *((text, "with its name in quotes") for text in ("[a.test]\ndelay = 9", "delay = 9")),
)
def test_an_invalid_table_is_reported_in_one_sentence_without_secrets(opened, text, why):
    with pytest.raises(FatalError, match=why) as error:
        opened(text)
    assert SECRET not in str(error.value)


def test_a_version_with_an_error_changes_nothing(opened, tmp_path, clock, caplog):
    rules = opened(f'["a.test"]\nbudget = 1\ncookies = {{a = "{SECRET}"}}')
    (tmp_path / "hosts.toml").write_text(f'["a.test"]\ncookies = "{SECRET}"')
    for _ in range(3):
        clock.now += 1
        rules.policies.reload_if_changed()
    rules.policies.reading.result()
    assert rules.host_policy("a.test").budget == 1
    assert "The previous rules (1) stay in force." in caplog.text
    assert "Traceback" not in caplog.text
    assert SECRET not in caplog.text + repr(rules.host_policy("a.test"))


@each("mode warnings", (0o644, 1), (0o600, 0))
def test_secrets_that_others_may_read_are_warned_of(opened, caplog, mode, warnings):
    opened(f'["a.test"]\nverify = true\nheaders = {{X-Key = "{SECRET}"}}', mode)
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == warnings


@each(
    "host facts pace rest",
    ("slow.test", HostFacts([0.1]), 1, 20),
    ("slow.test", HostFacts([0.1], crawl_delay=50), 1, 50),
    ("fast.test", HostFacts([1.0]), 1, 0.5),
    ("fast.test", HostFacts([1.0], retry_after=60), 1, 60),
    ("fast.test", HostFacts([1.0], failures=2), 1, 20),
    ("any.test", HostFacts([1.0]), 1, 10),
    ("any.test", HostFacts([1.0]), 3, 30),
    ("www.any.test", HostFacts([0.1], crawl_delay=50), 3, 150),
    ("any.test", HostFacts([1.0]), 1 / 2, 5),
    ("any.test", HostFacts([1.0]), 1 / 1000, 3),
    ("any.test", HostFacts([9.0], crawl_delay=50), 1 / 1000, 50),
    ("any.test", HostFacts([1.0], retry_after=60), 1 / 1000, 60),
    ("any.test", HostFacts([1.0], failures=2), 1 / 1000, 20),
    ("slow.test", HostFacts([9.0]), 1 / 1000, 20),
    ("fast.test", HostFacts([9.0]), 1 / 1000, 0.5),
    ("other", HostFacts([1.0]), 3, 10),
)
def test_no_pause_is_shorter_than_the_host_permits(opened, host, facts, pace, rest):
    rules = opened('["slow.test"]\ndelay = 20\n["fast.test"]\ndelay = 0.5\nowner_allows = true')
    policy = LargestDelay(factor=10, floor=3, ceiling=120, backoff=10, backoff_max=3600)
    if pace != 1:
        rules.command("slower", "test", source="a command", times=pace)
    assert HostDelays(policy=policy, rules=rules).rest(host, facts) == rest


@pytest.mark.cures("{} {}: render has no effect, because RENDER is 0. Set RENDER=auto")
@each("render said", ("all", 1), ("auto", 1), ("0", 0))
def test_rendering_of_a_host_in_a_crawl_without_is_a_warning(opened, caplog, render, said):
    opened(f'["a.test"]\nrender = "{render}"')
    assert caplog.text.count("render has no effect, because RENDER is 0. Set RENDER=auto") == said
    caplog.clear()
    opened(f'["a.test"]\nrender = "{render}"', RENDER="auto")
    assert "has no effect" not in caplog.text


def test_a_crawl_goes_by_the_tables_and_its_secrets_are_nowhere(tmp_path):
    world = {"hosts": 4, "mean_pages": 8.0, "max_pages": 10, "crawl_delays": 1.0}
    with simulated(tmp_path, redirects=0.0, **world) as web:
        first, second, third, _ = names = [web.world.host(n).name for n in range(4)]
        path = tmp_path / "hosts.toml"
        path.write_text(
            f'["={first}"]\ndelay = 0.01\nowner_allows = true\nverify = false\n'
            f'headers = {{X-Key = "{SECRET}"}}\n'
            f'["={second}"]\ndelay = 1.2\nverify = false\ncookies = {{a = "{SECRET}"}}\n'
            f'["={third}"]\nbudget = 2\n'
        )
        path.chmod(0o600)
        said = web.crawl(HOSTS_POLICY_FILE=path, POLITENESS_JITTER=0)
        hits = defaultdict(list)
        for hit in sorted(web.hits(), key=lambda hit: hit.start):
            hits[hit.origin.partition("://")[2].partition(":")[0]].append(hit)
    assert set(hits) == set(names)
    gaps = {
        name: [after.start - before.end for before, after in itertools.pairwise(found)]
        for name, found in hits.items()
    }
    assert min(gaps[second]) >= 1.2
    assert sorted(gaps[first])[len(gaps[first]) // 2] < min(gaps[second])
    assert len([hit for hit in hits[third] if hit.target != "/robots.txt"]) == 2
    assert stats_of(web.job)["frontier/parked/host_budget"] > 0
    why = warm.scrapy("why", str(web.job), f"http://{first}:8480/").stdout
    assert f'has the table "={first}" in HOSTS_POLICY_FILE' in why
    for file in web.job.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            data += gzip.decompress(data) if data[:2] == b"\x1f\x8b" else b""
            assert SECRET.encode() not in data, file
    assert SECRET not in said + why


@cases(
    "table is_withheld",
    """
        headers = {X = "1"} | True
        headers = {X = "1"}, verify = false | False
        proxy = "https://u:p@proxy.test" | True
        proxy = "https://u:p@proxy.test", proxy_verify = false | False
        budget = 1 | False
    """,
)
def test_a_server_that_is_not_verified_is_left_alone_only_if_its_table_needs_that(
    opened, caplog, table, is_withheld
):
    """The answer to a request may come after the file has changed."""
    text = table.replace(", ", "\n")
    rules = opened(f'["a.test"]\n{text}').policies.rules
    error = UnverifiedError(f"https://u:{SECRET}@a.test/: certificate verify failed")
    rules.note_unverified("https://a.test", error)
    assert rules.is_withheld("https://a.test/") is is_withheld
    assert not rules.is_withheld("https://b.test/")
    assert SECRET not in caplog.text


def test_urls_that_are_held_for_their_credentials_are_checked_again_when_the_file_changes(
    opened, tmp_path, clock
):
    policies = opened('["a.test"]\nheaders = {X = "1"}').policies
    gate = CredentialGate(policies)
    assert not gate.advance(Supply.NOW)
    (tmp_path / "hosts.toml").write_text('["a.test"]\nbudget = 1')
    for _ in range(3):
        clock.now += 1
        policies.reload_if_changed()
    policies.reading.result()
    policies.reload_if_changed()
    assert gate.advance(Supply.NOW)
    assert not gate.advance(Supply.NOW)

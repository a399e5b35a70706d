"""``scrapy report --bundle``: what strangers attach to an issue has no word of what they crawl."""

import json
import re
import stat
from pathlib import Path
from urllib.parse import urlsplit

from crawling import RIGS, printed, simulated, stats_of
from http_site import HttpSite, serving
from text_tables import cases

from webcrawl.extensions.shown_settings import CHOICES
from webcrawl.jobs.report.bundle import _STAT, masked_head

ROOT = Path(__file__).resolve().parents[3]
#: In host names, paths, addresses, headers, pages, names of files, values and names of settings.
PLANTED = """
    mustermann erika kundenliste ausschluss wettbewerber zaubertoken rosenrot proxygeheim
    31337133 27182818 47114711 10.9.8.7 musterkeks seitengeheimnis failing_module
"""
SETTINGS = {
    "CONCURRENT_REQUESTS": 7,
    "MEMORY_BUDGET": "256MB",
    "URL_SCOPE": "seeds",
    "LOG_LEVEL": "DEBUG",
    "CRAWLER_CONTACT": "erika@mustermann.example",
    "CRAWLER_NAME": "mustermannbot",
    "DEFAULT_REQUEST_HEADERS": json.dumps({"Authorization": "Bearer zaubertoken"}),
    "FTP_USER": "mustermann",
    "FTP_PASSWORD": 31337133,
    "AWS_SECRET_ACCESS_KEY": 27182818,
    "TELNETCONSOLE_PASSWORD": 47114711,
    "REDIS_URL": "redis://:rosenrot@10.9.8.7:1",
    "ROTATING_PROXY_LIST": "http://erika:proxygeheim@10.9.8.7:3128",
    "MUSTERMANN_LEVEL": 3,
}
SHOWN = {
    "settings/CONCURRENT_REQUESTS 7",
    "settings/MEMORY_BUDGET 256MB",
    "settings/POLITENESS_MIN_DELAY 0.05",
    "settings/URL_SCOPE seeds",
    "settings/LOG_LEVEL DEBUG",
    "settings/FTP_PASSWORD set",
    "settings/AWS_SECRET_ACCESS_KEY set",
    "settings/ITEM_PIPELINES set",
    "error HTTP/1.1 403 a",
    "Set-Cookie: a=a9a",
    "Retry-After: 31",
}


def answer(handler):
    """A page that links to another, which is refused."""
    if "mustermann" in handler.path:
        headers = {
            "Server": "mustermann/27182818 (erika)",
            "Set-Cookie": "musterkeks=ab27182818x",
            "X-Mustermann-Id": "31337133",
            "ETag": '"seitengeheimnis"',
            "Location": "https://intern.mustermann.example/kundenliste",
            "Retry-After": "31",
        }
        return 403, headers, b"seitengeheimnis"
    if handler.path == "/":
        return (
            200,
            {},
            b'<title>seitengeheimnis</title><a href="/mustermann/erika?key=zaubertoken">',
        )
    return 404, {}, b""


def test_a_bundle_has_counts_and_no_word_of_the_crawl(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", RIGS)
    monkeypatch.setenv("BUG", str(tmp_path / "bug"))
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    directory = tmp_path / "home" / "erika.mustermann"
    directory.mkdir(parents=True)
    bundle = tmp_path / "bundle.txt"
    excluded = directory / "ausschluss.txt"
    excluded.touch()
    with (
        simulated(directory, hosts=9, max_pages=5) as web,
        serving(HttpSite(answer)) as site,
    ):
        first_host = urlsplit(next(iter(web.world.seeds()))).hostname
        excluded_too = directory / "wettbewerber.txt"
        excluded_too.write_text(f"{first_host}\n")
        web.seeds = web.seeds.rename(directory / "kundenliste.txt")
        with web.seeds.open("a") as seeds:
            seeds.write(f"{site.url}/\n")
        warc = "webcrawl.pipelines.warc.WarcPipeline"
        web.crawl(
            **SETTINGS,
            STATISTICS_INTERVAL_SECS=0.2,
            EXCLUSION_FILE=excluded,
            BLOCKLISTS=json.dumps({"wettbewerber": str(excluded_too)}),
            ITEM_PIPELINES=json.dumps({warc: 1, "failing_module.FailingPipeline": 2}),
        )
        said = printed("report", web.job, "--bundle", bundle)
        secrets = {
            *PLANTED.split(),
            *directory.parts[1:],
            *words_of(web.job),
            f":{site.server_port}",
        }

    data = bundle.read_bytes()
    text = data.decode("ascii")
    assert said.startswith(text)
    assert said.removeprefix(text).endswith("nothing was sent\n")
    assert [word for word in secrets if word.lower() in text.lower()] == []

    lines = text.splitlines()
    assert SHOWN - {*lines} == set()
    stats = stats_of(web.job)
    outcomes = {name: int(urls) for _, urls, name in rows(lines, "outcomes")}
    excluded_pages = stats["outcome/excluded_wettbewerber"]
    counted = {
        name.removeprefix("outcome/"): number
        for name, number in stats.items()
        if re.match("outcome/(?!excluded_)", name)
    }
    assert outcomes == counted | {"excluded": excluded_pages}
    hours = {name: int(number) for hour, name, number in rows(lines, "hours") if hour == "0"}
    assert 0 < hours["pages"] <= outcomes["http_200"]  # as of the last sample
    assert hours["bytes"] > 0

    names = dict(line.split(",") for line in hosts_file(web.job).read_text().splitlines())
    assert stat.S_IMODE(hosts_file(web.job).stat().st_mode) == 0o600
    assert first_host in names.values()
    pages = {names[digest]: int(pages) for digest, _, _, pages, *_ in rows(lines, "hosts")}
    assert sum(pages.values()) == outcomes["http_200"]
    printed("report", web.job, "--bundle", bundle)
    again = dict(line.split(",") for line in hosts_file(web.job).read_text().splitlines())
    assert (sorted(again.values()), {*again} & {*names}) == (sorted(names.values()), set())


def hosts_file(job):
    return job / "bundle-hosts.csv"


def rows(lines, section):
    """The words of each line of *section*."""
    start = next(number for number, line in enumerate(lines) if line.startswith(f"[{section}"))
    end = lines.index("", start)
    return [line.split(" ") for line in lines[start + 1 : end]]


def words_of(job):
    """Hosts, paths and fingerprints in the log of *job*."""
    for line in map(json.loads, (job / "logs/info.jsonl").read_text().splitlines()):
        url = urlsplit(line["url"])
        yield url.hostname
        yield from (word for word in (url.path, url.query) if len(word) > 4)
        yield from (line[name] for name in ("form", "content", "etag") if name in line)


@cases(
    "line masked",
    r"""
        Server: nginx/1.18.0 (Acme) | Server: nginx/9.9.9 (a)
        Location: https://timeout.no/text/html | Location: a
        Location: /private/cache | Location: a
        Set-Cookie: sid=ab12; Domain=.cache.id; Secure | Set-Cookie: a=a9; a Secure
        Set-Cookie: sid=ab12; Path=/no; HttpOnly | Set-Cookie: a=a9; Path=a HttpOnly
        X: text@html.id | X: a
        WWW-Authenticate: Basic realm="Acme 7" | WWW-Authenticate: Basic a="a 9"
        X-Key: Müller\x1b[2J | X-a: a?a?[9a
        Retry-After: 120 | Retry-After: 120
        Retry-After: Wed, 21 Oct | Retry-After: a, 9 a
        X-Retry-After: 120 | X-Retry-After: 9
        Content-Type: text/html; charset=utf-8 | Content-Type: text/html; charset=utf-9
        HTTP/1.1 200 | HTTP/9.9 9
    """,
)
def test_heads_are_masked(line, masked):
    line = line.encode("latin-1").decode("unicode_escape")
    head = f"HTTP/1.1 200 OK\r\n{line}\r\n\r\n".encode("latin-1")
    assert masked_head(head) == f"HTTP/1.1 200 a\n{masked}\n"


@cases(
    "name is_shown",
    """
        robots/lost/acme.test | False
        robots/http_404 | True
        robots/acme | False
        urls/refused/acme_filter | False
        critical/acme.Module | False
        modules/acme/pages | False
        fetch/bytes | True
        links/acme.test | False
    """,
)
def test_stats_with_names_of_users_are_not_shown(name, is_shown):
    assert bool(_STAT.fullmatch(name)) == is_shown


def test_each_setting_of_a_few_words_is_known():
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "webcrawl").rglob("*.py"))
    names = {*re.findall(r'choice\(settings, "(\w+)"', source)}
    assert {name for name in names if f"{name}=" not in CHOICES.pattern} == set()
    assert len(names) > 7

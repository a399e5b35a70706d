"""Credentials of host policies in whole crawls, by the record of each server."""

import asyncio
import contextlib
import os
import ssl
import subprocess
from types import SimpleNamespace

import pytest
import trustme
import warm
from crawling import RIGS, crawl_command, kill, start_crawl, stats_of, wait_until
from loopback import name_server, raw_server, zone
from text_tables import cases

HOSTS = ["good", "sub.good", "self", "wrong", "plain", "off", "robots"]
WAIT = ", ".join(f"={host}.test" for host in HOSTS if host not in ("sub.good", "off"))


class Server:
    """What answers with *pages*, by host and path; *got* is whether each request had the token."""

    def __init__(self, pages):
        self.pages = pages
        self.got = {}

    async def talk(self, reader, writer):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split()[1]
            name = head.lower().partition("\nhost: ")[2].partition(".test")[0] + path
            self.got[name] = "T0KEN" in head
            default = (404, "") if path == "/robots.txt" else (200, "")
            status, text = self.pages.get(name, default)
            body = f"<p>{name}</p>{text}" if status == 200 else ""
            fields = [f"HTTP/1.1 {status} X", "Content-Type: text/html"]
            fields += [f"Content-Length: {len(body)}", f"Location: {text}", "", body]
            writer.write("\r\n".join(fields).encode())
            await writer.drain()


@pytest.fixture
def web(tmp_path, monkeypatch):
    """Return a manager of servers by name: those of TLS with a certificate that is valid for all
    hosts, for none of them, or that nobody trusts; and one without TLS."""
    known = trustme.CA()
    known.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))

    def context(authority, *names):
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*names).configure_cert(made)
        return made

    names = [f"{host}.test" for host in HOSTS]

    @contextlib.asynccontextmanager
    async def serving():
        made = SimpleNamespace(pages={})
        contexts = {
            "good": context(known, *names),
            "other": context(known, *names),
            "wrong": context(known, "else.test"),
            "untrusted": context(trustme.CA(), *names),
            "plain": None,
        }
        async with contextlib.AsyncExitStack() as stack:
            records = {name: ["300 A 127.0.0.1"] for name in names}
            dns = await stack.enter_async_context(name_server(zone(records)))
            made.dns = f"127.0.0.1:{dns.port}"
            for name, tls in contexts.items():
                server = Server(made.pages)
                raw = await stack.enter_async_context(raw_server(server.talk, tls=tls))
                server.url = f"http{'s' * bool(tls)}://{{}}.test:{raw.port}".format
                setattr(made, name, server)
            yield made

    return serving


def write_tables(directory, **more):
    """One table with a token for each host; *more* are lines of these, by host."""
    tables = {host: "" for host in HOSTS if host != "sub.good"} | {"off": "verify = false"} | more
    (directory / "hosts.toml").write_text(
        "".join(
            f'["={host}.test"]\nheaders = {{Authorization = "T0KEN"}}\n{line}\n'
            for host, line in tables.items()
        )
    )
    (directory / "hosts.toml").chmod(0o600)


def command(web, directory, *urls, **settings):
    seeds = directory / "seeds.txt"
    seeds.write_text("".join(f"{url}/\n" for url in urls))
    # With a back-off of an hour for any host, no crawl would end in time.
    policies = {"HOSTS_POLICY_FILE": directory / "hosts.toml", "POLITENESS_BACKOFF_SECS": 3600}
    return crawl_command(web, seeds, directory / "job", **policies, **settings)


async def run(line):
    options = {"stderr": subprocess.STDOUT, "env": os.environ}
    done = await asyncio.to_thread(warm.run, line, **options)
    assert done.returncode == 0, done.stdout
    return done.stdout


async def test_credentials_wait_for_verified_servers_and_for_the_table(web, tmp_path):
    async with web() as made:
        good, other, wrong, untrusted, plain = (
            *(made.good, made.other, made.wrong, made.untrusted, made.plain),
        )
        targets = {
            "scheme": plain.url("good"),
            "port": untrusted.url("good"),
            "verified": other.url("good"),
            "subdomain": good.url("sub.good"),
        }
        made.pages |= {f"good/{way}": (302, f"{url}/to") for way, url in targets.items()}
        made.pages["good/"] = 200, "".join(f"<a href=/{way}>{way}</a>" for way in targets)
        made.pages["robots/robots.txt"] = 301, f"{plain.url('robots')}/file.txt"
        seeds = (
            *(good.url("good"), good.url("robots"), wrong.url("wrong"), untrusted.url("self")),
            *(plain.url("plain"), plain.url("off"), untrusted.url("off")),
        )
        write_tables(tmp_path)
        said = await run(command(made, tmp_path, *seeds))

        off = {"off/robots.txt": True, "off/": True}
        at_good = {f"good/{way}": True for way in ("robots.txt", "", *targets)}
        at_good |= {"sub.good/robots.txt": False, "sub.good/to": False, "robots/robots.txt": True}
        assert good.got == at_good
        assert other.got == {"good/robots.txt": True, "good/to": True}
        assert (wrong.got, untrusted.got, plain.got) == ({}, off, off)
        parked = (
            *(f"{targets['scheme']}/to", f"{targets['port']}/to", f"{good.url('robots')}/"),
            *(f"{wrong.url('wrong')}/", f"{untrusted.url('self')}/", f"{plain.url('plain')}/"),
        )
        stats = stats_of(tmp_path / "job")
        assert stats["frontier/parked/unverified"] == len(parked)
        assert f"hosts.toml: {WAIT}: header fields, cookies" in said
        assert "6 URLs parked because of unverified servers (verify and" in said
        assert f"not valid for wrong.test. URLs of {wrong.url('wrong')} wait" in said
        for url in parked:
            why = (await asyncio.to_thread(warm.scrapy, "why", str(tmp_path / "job"), url)).stdout
            assert "It is parked (unverified): header fields, cookies" in why, why
            assert "verify = false in its table" in why

        write_tables(tmp_path, **dict.fromkeys(HOSTS, "verify = false"))
        await run(command(made, tmp_path, *seeds))

        def sent(*names):
            return dict.fromkeys(names, True)

        assert plain.got == off | sent(
            "good/robots.txt", "good/to", "plain/robots.txt", "plain/", "robots/file.txt"
        )
        assert wrong.got == sent("wrong/robots.txt", "wrong/")
        assert untrusted.got == off | sent("good/robots.txt", "good/to", "self/robots.txt", "self/")
        assert good.got == at_good | {"robots/": True}
        assert stats_of(tmp_path / "job").get("frontier/parked/unverified", 0) == 0


@cases(
    "target table parked",
    """
    self  | =self.test  | 1
    plain | test        | 2
    """,
    long="""
    plain | =plain.test | 1
    self  | test        | 2
    """,
)
async def test_a_robots_txt_behind_anothers_credentials_is_unreachable(
    web, tmp_path, target, table, parked
):
    def write_table(line):
        text = f'["{table}"]\nheaders = {{Authorization = "T0KEN"}}\n{line}\n'
        (tmp_path / "hosts.toml").write_text(text)
        (tmp_path / "hosts.toml").chmod(0o600)

    async with web() as made:
        write_table("")
        server = {"self": made.untrusted, "plain": made.plain}[target]
        made.pages["sub.good/robots.txt"] = 301, f"{server.url(target)}/file.txt"
        seeds = made.good.url("sub.good"), server.url(target)
        said = await run(command(made, tmp_path, *seeds))

        has_token = table == "test"
        assert made.good.got == {"sub.good/robots.txt": has_token}
        assert server.got == {}
        stats = stats_of(tmp_path / "job")
        assert stats.get("outcome/unverified", 0) == 2 - parked
        assert stats["frontier/parked/unverified"] == parked
        assert (f"URLs of {made.good.url('sub.good')} wait" in said) == (parked == 2)

        write_table("verify = false")
        retry = "frontier", str(tmp_path / "job"), "--retry", "unverified"
        assert (await asyncio.to_thread(warm.scrapy, *retry)).returncode == 0
        await run(command(made, tmp_path, *seeds))
        assert made.good.got["sub.good/"] == has_token
        paths = "file.txt", "robots.txt", ""
        assert server.got == {f"{target}/{path}": True for path in paths}


async def test_a_change_of_the_table_releases_urls_of_a_running_crawl(web, tmp_path):
    async with web() as made:
        write_tables(tmp_path)
        line = command(
            made, tmp_path, made.untrusted.url("self"), made.plain.url("plain"), KEEP_OPEN=1
        )
        crawl = await asyncio.to_thread(start_crawl, line)

        def wait_for(words):
            for said in crawl.stderr:
                if words in said:
                    return
            raise AssertionError(f"it ended without {words!r}")

        await asyncio.to_thread(wait_for, "certificate verify failed. URLs of https://self.test:")
        assert (made.untrusted.got, made.plain.got) == ({}, {})
        write_tables(tmp_path, self="verify = false", plain="verify = false")
        await asyncio.to_thread(wait_until, lambda: made.untrusted.got.get("self/"))
        await asyncio.to_thread(wait_until, lambda: made.plain.got.get("plain/"))
        kill(crawl)


async def test_what_a_rendered_page_needs_gets_credentials_by_the_same_rule(
    web, tmp_path, monkeypatch
):
    monkeypatch.setenv("PYTHONPATH", RIGS)
    async with web() as made:
        write_tables(tmp_path)
        sources = made.good.url("good"), made.untrusted.url("self"), made.plain.url("plain")
        scripts = [f'<script src="{url}/login.js"></script>' for url in sources]
        made.pages["good/"] = 200, "".join(scripts)
        engine = {"RENDER": "all", "RENDER_ENGINE": "scripted_engine:ScriptedEngine"}
        await run(command(made, tmp_path, made.good.url("good"), **engine))
        assert made.good.got["good/login.js"]
        assert (made.untrusted.got, made.plain.got) == ({}, {})
        stats = stats_of(tmp_path / "job")
        assert stats["render/outcome/unverified"] == 2
        assert stats["render/rendered"] == stats["render/pages"] == 1


SPIDER = """
from scrapy import Request, Spider

class Ordinary(Spider):
    name = "ordinary"
    custom_settings = {"ROBOTSTXT_OBEY": False}

    async def start(self):
        for url in (self.verified, self.untrusted):
            yield Request(url, self.parse, errback=self.note)

    async def parse(self, response):
        for url in (self.untrusted, self.plain):
            try:
                await self.crawler.engine.download_async(Request(f"{url}beside"))
            except Exception as error:
                self.note(error)
        self.note(response.url)

    def note(self, what):
        with open(self.notes, "a") as file:
            print(what, file=file)
"""


async def test_requests_of_a_spider_wait_and_its_downloads_fail(web, tmp_path):
    (tmp_path / "ordinary.py").write_text(SPIDER)
    async with web() as made:
        write_tables(tmp_path)
        urls = {
            "verified": made.good.url("me:geheim@good") + "/?see=http://a:b@c/",
            "untrusted": made.untrusted.url("self") + "/",
            "plain": made.plain.url("plain") + "/",
        }
        line = command(made, tmp_path)
        notes = {"notes": tmp_path / "notes"}
        words = [f"-a{name}={value}" for name, value in (urls | notes).items()]
        at = line.index("crawl")
        await run([*line[:at], "runspider", tmp_path / "ordinary.py", *words, *line[at + 4 :]])
        untrusted, plain, verified = (tmp_path / "notes").read_text().splitlines()
        assert untrusted == f"{urls['untrusted']}beside: certificate verify failed"
        assert plain == f"{urls['plain']}beside: the connection has no TLS"
        assert verified == urls["verified"]
        log = (tmp_path / "job/logs/info.jsonl").read_text()
        assert urls["verified"].replace("me:geheim", "***") in log
        assert "geheim" not in log
        assert made.good.got == {"good/?see=http://a:b@c/": True}
        assert (made.untrusted.got, made.plain.got) == ({}, {})
        assert stats_of(tmp_path / "job")["frontier/parked/unverified"] == 1

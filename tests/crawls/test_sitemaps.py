"""Crawls by sitemaps, judged by what the servers were asked for."""

import asyncio
import gzip
import signal
import subprocess

import warm
from crawling import ROOT
from linked_site import Answer, command_for, crawl, served
from patience import LIMIT_SECS
from text_tables import each

XML = "application/xml"
ROBOTS = Answer(b"User-agent: *\nSitemap: http://a.test:{port}/index.xml\n", "text/plain")


def index(*paths):
    urls = "".join(f"<sitemap><loc>http://a.test:{{port}}{path}</loc></sitemap>" for path in paths)
    return Answer(f"<sitemapindex>{urls}</sitemapindex>".encode(), XML)


def urlset(*paths):
    urls = "".join(f"<url><loc>{path}</loc></url>\n" for path in paths)
    return Answer(f"<urlset>{urls}</urlset>".encode(), XML)


def packed(answer):
    return Answer(gzip.compress(answer.body), "application/gzip")


async def test_pages_that_only_sitemaps_name_are_found_by_way_of_robots_txt(tmp_path):
    pages = {
        "a.test/robots.txt": Answer(
            b"User-agent: *\nDisallow: /private\nSitemap: http://a.test:{port}/index.xml\n"
            b"Sitemap: http://a.test:{port}/moved.txt\n",
            "text/plain",
        ),
        "a.test/": Answer(b"<p>no links"),
        "a.test/index.xml": index("/1.xml.gz", "/index2.xml", "/private.xml", "/index.xml"),
        "a.test/1.xml.gz": packed(urlset(*(f"/p{n}" for n in range(20)), "/private/1")),
        "a.test/index2.xml": index("/2.xml"),
        "a.test/2.xml": urlset("/q"),
        "a.test/moved.txt": Answer(b"", status=301, headers=("Location: /list.txt",)),
        "a.test/list.txt": Answer(b"http://a.test:{port}/r\n", "text/plain"),
    }
    sitemaps = ["/index.xml", "/1.xml.gz", "/index2.xml", "/2.xml", "/moved.txt", "/list.txt"]
    found = ["/", *sitemaps, *(f"/p{n}" for n in range(20)), "/q", "/r"]
    async with served(pages) as sites:
        stats = await crawl(sites, tmp_path / "job", "a.test")
        assert sorted(sites.pages_asked) == sorted(f"a.test{path}" for path in found)
        assert stats["links/sitemaps"] == 2
        assert stats["outcome/robots_denied"] == 2
        sites.asked.clear()
        kinds = {"LINK_KINDS": "a,area"}
        await crawl(sites, tmp_path / "without", "a.test", **kinds)
        assert sites.pages_asked == ["a.test/"]


LARGE = "".join(
    f"<url><loc>http://a.test/catalogue/products/{n:06}/of-the-season</loc>"
    f"<lastmod>2026-11-20</lastmod><changefreq>daily</changefreq><priority>0.5</priority>{' ' * 99}"
    "</url>\n"
    for n in range(49_998)
)


@each("coding", "gzip", long=("identity",))
async def test_a_full_sitemap_of_ten_megabytes_is_read_to_its_end(coding, tmp_path):
    body = f"<urlset><url><loc>/first</loc></url>{LARGE}<url><loc>/last</loc></url>".encode()
    assert len(body) > 10_000_000
    sent = gzip.compress(body) if coding == "gzip" else body
    settings = {"URL_REFUSE": "of-the-season", "EXTENSIONS": '{"lag_probe.LagProbe": 0}'}
    async with served({"a.test/robots.txt": ROBOTS}) as sites:
        sites.pages["a.test/index.xml"] = Answer(sent, XML, (f"Content-Encoding: {coding}",))
        stats = await crawl(sites, tmp_path / "job", "a.test", **settings)
        assert stats["urls/refused/pattern"] == 49_998
        assert stats["lag/cpu_ms_max"] < 50
        assert set(sites.pages_asked) == {
            f"a.test{path}" for path in ("/", "/index.xml", "/first", "/last")
        }


# Once each: what is being read at two deaths in a row is set aside.
@each("how delay", (signal.SIGKILL, 0.02), long=((signal.SIGKILL, 0.2), (signal.SIGTERM, 0.1)))
async def test_a_crawl_that_ends_while_a_sitemap_is_read_loses_none_of_its_urls(
    how, delay, tmp_path
):
    paths = [f"/page/{n}" for n in range(30_000)]
    kept = {f"a.test{path}" for path in paths if path.endswith("7777")}
    settings = {"URL_RESTRICT_TO": r".*(/|\.xml|7777)", "POLITENESS_MAX_DELAY": 0.1}
    async with served({"a.test/robots.txt": ROBOTS}) as sites:
        sites.pages["a.test/index.xml"] = urlset(*paths)
        command = command_for(sites, tmp_path / "job", "a.test", **settings)
        process = warm.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        async with asyncio.timeout(LIMIT_SECS):
            before = sites.asked.count("a.test/index.xml")
            while sites.asked.count("a.test/index.xml") == before:
                if process.poll() is not None or kept <= set(sites.asked):
                    break
                await asyncio.sleep(0.005)
            await asyncio.sleep(delay)
        process.send_signal(how)
        await asyncio.to_thread(process.wait)
        assert process.returncode in {0, -signal.SIGKILL}
        await crawl(sites, tmp_path / "job", "a.test", **settings)
        assert kept <= set(sites.asked)

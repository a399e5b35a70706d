"""Crawls through everything that links, judged by what the servers were asked for."""

from collections import Counter

from fpdf import FPDF
from linked_site import Answer, crawl, pages_of, served

from webcrawl.jobs.inspect.info_log import outcome_lines

HTML = Answer(b"<p>nothing")


def pdf(target):
    """A document with a link."""
    document = FPDF()
    document.add_page()
    document.link(10, 10, 10, 10, target)
    return bytes(document.output())


async def test_links_of_headers_feeds_and_documents_are_followed_by_their_kind(tmp_path):
    pages = pages_of("link_kinds")
    link = ("Link: </of-pdf>; rel=canonical",)
    pages["a.test/doc"] = Answer(pdf("/in-pdf"), "application/pdf", link)
    found = ["/", "/feed", "/c", "/next", "/doc", "/item1", "/item2", "/of-pdf", "/refreshed"]
    found += ["/in-pdf"]
    with_parts = [*found, "/image", "/style.css", "/style2.css", "/picture"]
    async with served(pages) as sites:
        await crawl(sites, tmp_path / "pages", "a.test")
        assert sorted(sites.pages_asked) == sorted(f"a.test{path}" for path in found)
        sites.asked.clear()
        kinds = "a,alternate,item,canonical,next,refresh,img,stylesheet,css"
        sites.pages["a.test/style.css"] = Answer(b"a { b: url(/picture) }", "text/css")
        await crawl(sites, tmp_path / "parts", "a.test", LINK_KINDS=kinds)
        assert sorted(sites.pages_asked) == sorted(f"a.test{path}" for path in with_parts)


async def test_what_a_page_asks_not_to_follow_is_not_asked_for(tmp_path):
    async with served(pages_of("nofollow")) as sites:
        stats = await crawl(sites, tmp_path / "polite", "a.test")
        assert sites.pages_asked == ["a.test/", "a.test/meta"]
        assert stats["urls/refused/nofollow"] == 2
        await crawl(sites, tmp_path / "other", "a.test", NOFOLLOW_OBEY=0)
        assert {"a.test/no1", "a.test/no2"} <= set(sites.pages_asked)


async def test_seen_document_leads_on_where_its_first_copy_did_not(tmp_path):
    frames = Answer(b"<frameset><frame src=menu.html><frame src=main.html></frameset>")
    refresh = Answer(b"<meta http-equiv=refresh content='0; url=home.html'>")
    enter = Answer(b"<a href=inside.html>enter</a>")
    chain = Answer(b"<meta http-equiv=refresh content='0; url=more/'>")
    # Each page has links of a page that is worth reading, of which a mirror has copies.
    texts = [
        Answer(b"%d" % n + b"".join(b"<a href=%d.html>x</a>" % m for m in range(12)))
        for n in range(12)
    ]
    pages = {}
    for host in ("a.test", "b.test"):
        pages |= {
            f"{host}/": frames,
            f"{host}/menu.html": Answer(b"menu of " + host.encode() + b"<a href=/one/>x</a>"),
            f"{host}/main.html": Answer(b"main page of " + host.encode()),
            f"{host}/one/": refresh,
            f"{host}/one/home.html": Answer(b"home in " + host.encode() + b"<a href=/two/>x</a>"),
            f"{host}/two/": refresh,
            f"{host}/two/home.html": Answer(b"home of two of " + host.encode()),
            f"{host}.enter.test/": enter,
            f"{host}.enter.test/inside.html": Answer(b"inside " + host.encode()),
            f"{host}.mirror.test/": texts[0],
            **{f"{host}.mirror.test/{n}.html": text for n, text in enumerate(texts)},
        }
    # Endless: each directory has the same document, which leads into the next.
    pages["trap.test/"] = chain
    pages |= {f"trap.test/{'more/' * n}": chain for n in range(1, 40)}
    hosts = sorted({name.partition("/")[0] for name in pages})
    async with served(pages) as sites:
        await crawl(sites, tmp_path / "job", *hosts)
        asked = Counter(sites.pages_asked)
        wanted = {name for name in pages if ".mirror." not in name and "trap" not in name}
        assert wanted <= asked.keys()
        mirrors = Counter(name.partition("/")[0] for name in asked if ".mirror." in name)
        # Ten links of the root page of the copy were tried.
        assert sorted(mirrors.values()) == [11, 13]
        assert sum(name.startswith("trap.test") for name in asked) <= 3


async def test_hosts_with_the_same_root_page_and_other_pages_are_crawled(tmp_path):
    """A shell of 30 kB with relative links, as shop systems have; and a farm of copies."""
    shell = b"".join(b"<a href=/goods/%d>goods</a><p>%s" % (n, b"x" * 900) for n in range(30))
    pages = {}
    for host in ("a.test", "b.test"):
        pages[f"{host}/"] = Answer(shell)
        for n in range(30):
            more = b"<a href=/more/%d>x</a>" % n if n < 10 else b""
            pages[f"{host}/goods/{n}"] = Answer(b"%d of %s" % (n, host.encode()) + more)
        pages |= {
            f"{host}/more/{n}": Answer(
                b"more %d of %s" % (n, host.encode())
                + b"".join(b"<a href=/goods/%d>x</a>" % m for m in range(30))
            )
            for n in range(10)
        }
    farm = {f"copy{n}.test/": Answer(shell + b" ") for n in range(60)}
    hosts = sorted({name.partition("/")[0] for name in pages | farm})
    async with served(pages | farm) as sites:
        await crawl(sites, tmp_path / "job", *hosts)
        asked = {*sites.pages_asked}
        assert pages.keys() <= asked
        by_copy = Counter(name.partition("/")[0] for name in asked if name.startswith("copy"))
        assert max(by_copy.values()) == 31  # the first one
        assert len([one for one in by_copy.values() if one == 11]) <= 16
        assert {*by_copy.values()} == {1, 11, 31}


async def test_links_to_closed_ports_wait_behind_all_others_of_their_host(tmp_path):
    closed = b"".join(b'<a href="http://a.test:%d/">x</a>' % port for port in range(1, 21))
    good = b"".join(b"<a href=/%d>x</a>" % number for number in range(20))
    pages = {"a.test/": Answer(closed + good)}
    pages |= {f"a.test/{n}": Answer(b"<a href=/more%d>x</a> %d" % (n, n)) for n in range(20)}
    pages |= {f"a.test/more{n}": Answer(b"the last %d" % n) for n in range(20)}
    async with served(pages) as sites:
        await crawl(sites, tmp_path / "job", "a.test", REPUTATION_BASE_PAGES=100)
        assert len(sites.pages_asked) == 41
        found = [line.outcome for line in outcome_lines(tmp_path / "job")]
        assert found == ["http_200"] * 41 + ["connect_refused"] * (len(found) - 41)
        assert len(found) > 50

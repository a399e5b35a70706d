"""Hosts that serve the same site are crawled under one name, by the record of their servers."""

import re

from alias_web import alias_web
from crawling import printed
from text_tables import each
from virtual_sites import VirtualSites

SMALL = {"hosts": 24, "aliases": 6, "mirrors": 2, "lookalikes": 5}
WHOLE = {"hosts": 500, "aliases": 60, "mirrors": 30, "lookalikes": 20}
PAGES = 60
LEADS, OTHER = "www.a.test", "a.example"


def crawl(directory, web, **settings):
    """What was asked for, by host and path, and how many contacts that took."""
    directory.mkdir()
    sites = VirtualSites(directory, web.pages)
    contacts = sites.crawl(*(f"http://{host}/" for host in web.hosts), **settings)
    return {(hit.server.removesuffix(":80"), hit.path) for hit in contacts}, len(contacts)


@each("web size", (SMALL, 120), long=((WHOLE, 200),))
def test_aliases_cost_few_contacts_and_no_page_is_lost(tmp_path, web, size):
    web = alias_web(**web, size=size)
    _, without = crawl(tmp_path / "without", web, ALIASES=0)
    _, by_oracle = crawl(tmp_path / "oracle", web.as_known_to_an_oracle(), ALIASES=0)
    hits, found = crawl(tmp_path / "found", web, ALIASES=1)
    assert not web.lost(hits)
    assert without - found >= 0.85 * (without - by_oracle)


def site(host, *, pages=PAGES, text="text", head="", more=""):
    """A site whose pages name their *host* in their links."""
    paths = ["/", *(f"/{number}" for number in range(1, pages))]
    links = "".join(f"<a href='http://{host}{path}'>x</a>" for path in paths)
    title = "<title>{}</title>".format
    return {
        f"{host}:80{path}": f"{title(path)}{head}{links}{more}<p>{text} of {path}" for path in paths
    }


def paths_of(contacts, host):
    return {hit.path for hit in contacts if hit.server == f"{host}:80"} - {"/robots.txt"}


class Pair:
    """Two hosts with the same site, but for *pages*; LEADS is a seed, OTHER is not."""

    def __init__(self, directory, pages=(), **other):
        links = "".join(f"<a href='http://{OTHER}/{number}'>x</a>" for number in range(1, PAGES))
        directory_of_sites = {"d.test:80/": links + f"<a href='http://{OTHER}/'>x</a>"}
        self.pages = site(LEADS) | site(OTHER, **other) | directory_of_sites | dict(pages)
        self.sites = VirtualSites(directory, self.pages)
        self.seeds = [f"http://{LEADS}/", "http://d.test/"]

    def crawl(self, **settings):
        contacts = self.sites.crawl(*self.seeds, **{"ALIASES": 1} | settings)
        return [paths_of(contacts, host) for host in (LEADS, OTHER)]

    def said(self, *words):
        return printed(words[0], str(self.sites.job), *words[1:])


def test_the_name_in_the_seed_list_leads_and_the_job_says_so(tmp_path):
    pair = Pair(tmp_path)
    led, other = pair.crawl()
    assert len(led) == PAGES
    assert len(other) < PAGES / 2
    parked = next(f"/{number}" for number in range(1, PAGES) if f"/{number}" not in other)
    why = pair.said("why", f"http://{OTHER}{parked}")
    assert f"It is parked (alias_of:{LEADS}): its host serves the same site" in why
    report = tmp_path / "report.html"
    pair.said("report", "--output", str(report))
    rows = re.findall(rf"<tr><t[dh][^>]*>{OTHER}</t[dh]>.*?</tr>", report.read_text(), re.DOTALL)
    (row,) = (row for row in rows if LEADS in row)
    assert "by seeds" in row
    assert str(PAGES - len(other)) in re.findall(r"\d+", row)

    # The next run knows it, and one with the setting off fetches all.
    assert pair.crawl()[1] == other
    assert len(pair.crawl(ALIASES=0)[1]) == PAGES


def test_a_canonical_link_says_which_name_leads(tmp_path):
    head = f"<link href='http://{OTHER}/' rel=canonical>"
    pages = site(LEADS, head=head) | site(OTHER, head=head)
    led, other = Pair(tmp_path, pages).crawl()
    assert len(other) == PAGES
    assert len(led) < PAGES / 2


def test_a_table_names_an_alias_that_is_never_contacted(tmp_path):
    table = tmp_path / "hosts.toml"
    table.write_text(f'["{OTHER}"]\nalias = "{LEADS}"\n')
    # Only the other name has a link to these, one of them in a sitemap.
    hidden = {
        "d.test:80/": f"<a href=http://{OTHER}/hidden>x</a>"
        f"<link rel=sitemap href=http://{OTHER}/map.xml>",
        f"{LEADS}:80/map.xml": "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>"
        f"<url><loc>http://{LEADS}/listed</loc></url></urlset>",
        f"{LEADS}:80/hidden": "hidden",
        f"{LEADS}:80/listed": "listed",
    }
    led, other = Pair(tmp_path, hidden).crawl(ALIASES=0, HOSTS_POLICY_FILE=table)
    assert led > {"/hidden", "/map.xml", "/listed"}
    assert len(led) == PAGES + 3
    assert not other


def test_a_page_that_only_the_other_name_has_ends_the_alias(tmp_path):
    own = [f"/own/{number}" for number in range(20)]
    links = "".join(f"<a href='http://{OTHER}{path}'>x</a>" for path in own)
    pages = {f"{OTHER}:80{path}": f"text of {path}" for path in own} | {"e.test:80/": links}
    pair = Pair(tmp_path, pages)
    assert len(pair.crawl()[1]) < PAGES
    pair.seeds.append("http://e.test/")
    assert pair.crawl()[1] >= {"/", *own, *(f"/{number}" for number in range(1, PAGES))}


@each("robots", "Disallow: /30\n", "Disallow: /\nAllow: /1\n")
def test_names_with_other_rules_of_robots_txt_are_no_aliases(tmp_path, robots):
    rules = {f"{LEADS}:80/robots.txt": f"User-agent: *\n{robots}"}
    led, other = Pair(tmp_path, rules).crawl()
    assert len(other) == PAGES
    assert "/30" not in led


@each("excluded", LEADS, OTHER)
def test_after_an_exclusion_the_urls_of_the_other_name_stay_parked(tmp_path, excluded):
    pair = Pair(tmp_path)
    _, other = pair.crawl()
    file = tmp_path / "exclusions.txt"
    file.write_text(f"={excluded}\n")
    assert pair.crawl(EXCLUSION_FILE=file)[1] == other
    # Also when the file no longer has it.
    assert pair.crawl()[1] == other
    purge = pair.said("purge", "--host", "www.a.test", "--dry-run")
    assert "the same site has the names a.example: not purged, see --with-aliases" in purge
    pair.said("purge", "--host", "www.a.test", "--with-aliases")
    assert {*(pair.sites.job / "purged.txt").read_text().split()} == {LEADS, OTHER}


@each("contact", 20, long=(40,))
def test_after_kill_9_no_page_is_lost(tmp_path, contact):
    pair = Pair(tmp_path)
    pair.sites.crawl(*pair.seeds, ALIASES=1, killed_at=contact)
    led, other = pair.crawl()
    assert len(led) == PAGES
    # It is found again unless most pages were fetched before.
    assert len(other) < PAGES or contact == 40

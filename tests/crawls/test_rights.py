"""Crawls with a purpose do what the owners of the simulated web say, by the servers' own record."""

import json

import pytest
import warm
from crawling import impolite, url_of_hit
from linked_site import Answer, crawl, served
from virtual_crawl import VirtualCrawl

from webcrawl.jobs.inspect.info_log import outcome_lines
from webcrawl.jobs.replay.warc_reader import stored_pages
from webcrawl.jobs.search import search as search_in
from webcrawl.simweb.preferences import TDM_PATH, preference_of

MODULES = ("text.TextDataset", "warc.WarcPipeline")
SETTINGS = {
    "ITEM_PIPELINES": json.dumps({f"webcrawl.pipelines.{name}": 1 for name in MODULES}),
    "TEXT_FORMAT": "jsonl",
}


class Crawled:
    """A finished crawl of all hosts for *purpose*, which the test reads."""

    def __init__(self, directory, purpose, policy, *, lives=(1,)):
        self.purpose = purpose
        self._crawl = VirtualCrawl(directory, name="rights")
        settings = SETTINGS | {"CRAWL_PURPOSE": purpose, "RIGHTS_POLICY": policy}
        for days in lives:
            before = len(self._crawl.hits())
            self._crawl.run(days, **settings)
            assert len(self._crawl.hits()) > before + 10
        self.job = self._crawl.job
        self.hits = self._crawl.hits()
        self.asked = [url_of_hit(hit) for hit in self.hits]
        self.pages = {url for url in self.asked if not url.endswith(("/robots.txt", TDM_PATH))}
        self.outcomes = {line.url: line for line in outcome_lines(self.job)}

    def preference(self, url):
        world = self._crawl.world
        return preference_of(world, world.find(url.split("/")[2].split(":")[0]))

    def refused(self, urls):
        return {url for url in urls if self.purpose in self.preference(url).refused.split()}

    def lines(self, name):
        return [json.loads(line) for line in (self.job / "text" / name).read_bytes().splitlines()]

    def deltas(self):
        done = warm.scrapy("delta", self.job, "--since", "0")
        return {one["url"]: one for one in map(json.loads, done.stdout.splitlines())}

    def stored(self):
        files = (self.job / "warc").glob("*.warc.gz")
        return {
            one.page.url: one.page
            for path in files
            for one in stored_pages(path, start=0, max_bytes=1 << 20)
        }


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """For training, with policy ``use``, in two runs."""
    return Crawled(tmp_path_factory.mktemp("train"), "train", "use", lives=(3 / 86400, 1))


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    return Crawled(tmp_path_factory.mktemp("search"), "search", "strict")


def test_refused_pages_are_fetched_and_stored_but_are_in_no_dataset_or_delta(train):
    refused = train.refused(train.pages)
    assert len({train.preference(url) for url in refused}) == 9
    assert {row["url"] for row in train.lines("text.jsonl")} == train.pages - refused
    assert set(train.deltas()) == train.pages - refused
    assert set(train.stored()) >= train.pages


def test_a_dataset_lists_what_was_left_out(train):
    left_out = {line["url"]: line for line in train.lines("_left_out.jsonl")}
    assert set(left_out) == train.refused(train.pages)
    for line in left_out.values():
        assert line["complaints"] == "https://example.org/crawler"
        assert line["fetched_at"] == train.outcomes[line["url"]].sent
        assert line["reason"]


def test_rights_are_the_same_in_dataset_delta_warc_and_log(train):
    stored, deltas = train.stored(), train.deltas()
    rows = {row["url"]: json.loads(row["rights"]) for row in train.lines("text.jsonl")}
    asked_at = {url_of_hit(hit): hit.start for hit in train.hits}
    for url in train.pages:
        rights = train.outcomes[url].rights
        assert stored[url].rights == rights
        assert rights.purpose == "train"
        assert rights.agent == "webcrawl-train/0.5 (train; +https://example.org/crawler)"
        robots = rights.statements[0]
        assert robots.source == "robots.txt"
        asked = asked_at["/".join([*url.split("/")[:3], "robots.txt"])]
        assert robots.read_at == pytest.approx(asked, abs=1)
        if url in rows:
            assert rows[url] == deltas[url]["rights"]
            assert rows[url]["statements"][0]["read_at"] == robots.read_at


def test_a_replay_gets_the_stored_rights_and_can_ignore_them(train, tmp_path):
    values = SETTINGS | {"RIGHTS_POLICY": "record", "TEXT_DIR": tmp_path / "text"}
    options = [word for name, value in values.items() for word in ("-s", f"{name}={value}")]
    assert warm.scrapy("replay", train.job, "-o", tmp_path / "job", *options).returncode == 0
    rows = [*map(json.loads, (tmp_path / "text/text.jsonl").read_text().splitlines())]
    assert {row["url"] for row in rows} == train.pages
    refused = {row["url"] for row in rows if "left_out" in row["rights"]}
    assert refused == train.refused(train.pages)


def test_tdmrep_is_fetched_once_a_host_before_its_pages_and_not_again_after_a_restart(train):
    files = [url for url in train.asked if url.endswith(TDM_PATH)]
    assert len(files) == len(set(files)) == 15
    for url in files:
        of_host = [one for one in train.asked if one.startswith(url.removesuffix(TDM_PATH))]
        assert of_host[1] == url
        assert of_host[0].endswith("/robots.txt")
    assert not impolite(train.hits, min_delay=0.5)


def test_strict_crawls_do_not_fetch_what_robots_txt_refuses_nor_keep_the_rest(search):
    hosts = {search.preference(url) for url in search.pages}
    assert not {one for one in hosts if one.robots and "search" in one.refused.split()}
    refused = {url for url, line in search.outcomes.items() if line.outcome == "rights_refused"}
    assert refused == search.refused(search.outcomes)
    assert len(refused) > len(refused & search.pages) > 0
    assert {row["url"] for row in search.lines("text.jsonl")} == search.pages - refused
    assert not refused & set(search.stored())
    assert not (search.job / "text/_left_out.jsonl").exists()
    assert not [url for url in search.asked if url.endswith(TDM_PATH)]


def test_why_says_which_statement_was_read_when_and_what_follows(train):
    for url in sorted(train.refused(train.pages))[::14]:
        said = warm.scrapy("why", train.job, url).stdout
        reason = train.outcomes[url].rights.left_out
        assert f"owner  {reason} (refuses the crawl's purpose), read 2027-01-15 08:00:" in said
        assert f"left out  of datasets, indexes and deltas, by {reason}" in said


def test_why_names_the_statement_that_kept_a_page_from_being_fetched(search):
    url = next(url for url in search.outcomes if url not in search.pages)
    said = warm.scrapy("why", search.job, url).stdout
    assert 'rights_refused, by "robots.txt ' in said
    assert "robots.txt  allowed: no rule applies to it; status 200, " in said


async def test_an_unchanged_document_that_is_refused_now_leaves_index_feed_and_delta(tmp_path):
    no = "Content-Signal: search=no"
    texts = {name: f"<title>{name}</title><p>{name} is here".encode() for name in "12"}
    links = "".join(f'<a href="/{name}">' for name in ("1", "2", "copy", "moved"))
    pages = {
        "a.test/": Answer(f"<title>root</title>{links}".encode()),
        "a.test/1": Answer(texts["1"]),
        "a.test/2": Answer(texts["2"], headers=('ETag: "2"',)),
        "a.test/copy": Answer(texts["1"], headers=(no,)),
        "a.test/moved": Answer(b"", headers=("Location: /1", no), status=301),
    }
    feed, modules = tmp_path / "feed.jsonl", [*MODULES, "search_index.SearchIndex"]
    filtered = {"format": "jsonlines", "item_filter": "webcrawl.pipelines.feed_filter.Documents"}
    settings = SETTINGS | {
        "CRAWL_PURPOSE": "search",
        "ITEM_PIPELINES": json.dumps({f"webcrawl.pipelines.{name}": 1 for name in modules}),
        "FEEDS": json.dumps({str(feed): filtered}),
    }
    job = tmp_path / "job"

    def known():
        hits = search_in(job / "search", "*", limit=9).hits
        return {hit.url.split("/")[3] for hit in hits}

    async with served(pages) as sites:
        await crawl(sites, job, "a.test", **settings)
        assert known() == {"", "1", "2"}
        lines = {line.url.split("/")[3]: line for line in outcome_lines(job)}
        refusing = {name for name, line in lines.items() if line.rights.left_out}
        assert refusing == {"copy", "moved"}
        assert lines["copy"].duplicate
        assert lines["1"].rights.statements[0].text == ""

        for name in "12":
            answer = sites.pages[f"a.test/{name}"]
            sites.pages[f"a.test/{name}"] = answer._replace(headers=(*answer.headers, no))
        token = warm.scrapy("delta", job, "--since", "0").stderr.splitlines()[-1]
        assert warm.scrapy("frontier", job, "--refetch", "all").returncode == 0
        await crawl(sites, job, "a.test", **settings)

    assert known() == {""}
    told = map(json.loads, warm.scrapy("delta", job, "--since", token).stdout.splitlines())
    changes = {one["url"].split("/")[3]: (one["change"], one["reason"]) for one in told}
    assert changes == dict.fromkeys(("1", "2", "copy"), ("gone", "rights_refused"))
    exported = [json.loads(line)["url"].split("/")[3] for line in feed.read_text().splitlines()]
    assert sorted(exported) == ["", "1", "2"]
    left_out = (job / "text/_left_out.jsonl").read_text().splitlines()
    listed = {json.loads(line)["url"].split("/")[3] for line in left_out}
    assert listed - {"2"} == {"1", "copy"}  # what is answered with 304 is not listed


async def test_strict_crawls_remove_an_earlier_version_from_the_index(tmp_path):
    names = ("warc.WarcPipeline", "search_index.SearchIndex")
    settings = {
        "CRAWL_PURPOSE": "search",
        "RIGHTS_POLICY": "strict",
        "ITEM_PIPELINES": json.dumps({f"webcrawl.pipelines.{name}": 1 for name in names}),
    }
    job = tmp_path / "job"
    async with served({"a.test/": Answer(b"<p>text")}) as sites:
        for headers, found in ((), 1), (("X-Robots-Tag: noindex",), 0):
            sites.pages["a.test/"] = Answer(b"<p>text", headers=headers)
            await crawl(sites, job, "a.test", **settings)
            hits = search_in(job / "search", "*", limit=9).hits
            assert len(hits) == found
            warm.scrapy("frontier", job, "--refetch", "all")
    files = (job / "warc").glob("*.warc.gz")
    pages = [one.page for path in files for one in stored_pages(path, start=0, max_bytes=1 << 20)]
    assert [page.url.count("robots.txt") for page in pages].count(0) == 1

"""The command lines of the documents, run in order on one small job; test_docs.py parses all."""

import gzip
import json
import re
import shlex
import shutil
from itertools import chain, pairwise

import duckdb
import pytest
import warm
from crawling import simulated
from patience import SLOWNESS
from test_docs import PAGES
from text_tables import each

from webcrawl.crawl.job.kept_checkpoints import KeptCheckpoints

# What the example of docs/reference/asking-a-job.md names.
MODULE = """
class TitlePipeline:
    def process_item(self, item):
        return item
"""
MODULES = {
    f"webcrawl.pipelines.{name}": number
    for number, name in enumerate(
        [
            *("warc.WarcPipeline", "statistics.ContentTypes", "larm.LarmPipeline"),
            *("link_graph.LinkGraph", "search_index.SearchIndex", "text.TextDataset"),
        ]
    )
}
# They need the internet, other machines or a hive that runs, or take hours; tests of their own run
# them, or none can.
# What needs a hive or a crawl that runs, or the network.
PARSED = re.compile(r"scrapy (hive (--drones|status|stop|up)|control (?!\S+ help))")
PAGES_RUN = [
    name
    for name, text in PAGES.items()
    if ("bin/scrapy " in text or name == "README.md")
    # tests/commands/test_elsewhere.py makes the project of that page.
    and name not in {"docs/why/papers.md", "docs/start/scrapy.md", "CHANGELOG.md"}
]
OPTIONS = [
    *("-s", "POLITENESS_MIN_DELAY=0.05", "-s", "POLITENESS_MAX_DELAY=0.2"),
    *("-s", "ALLOW_PRIVATE_ADDRESSES=1", "-s", f"CLOSESPIDER_TIMEOUT={4 * SLOWNESS:g}"),
]
# Unknown URLs, words that no page has, pauses longer than the crawl's.
MAY_BE_ONE = {"why", "search", "politeness-audit", "purge"}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """A simulated web, and a directory from which a job in it and what examples name are seen."""
    path = tmp_path_factory.mktemp("documents")
    (path / "scrapy.cfg").write_text("[settings]\ndefault = webcrawl.settings\n")
    (path / "my.py").write_text(MODULE)
    for name in ("examples/titles.py", "tests/data/quality.bin"):
        shutil.copy(warm.ROOT / name, path)
    job = path / "crawls/web"
    with simulated(path, hosts=6, mean_pages=4, max_pages=6) as web:
        options = {"ITEM_PIPELINES": json.dumps(MODULES), "URL_TRACE": path / "links.trace"}
        options |= {"JOBDIR": job, "POLITENESS_MAX_DELAY": 0.2}
        web.crawl(**options)
        # One that was stopped, with an older checkpoint.
        options = {"URL_SCOPE": "seeds", "STATISTICS_INTERVAL_SECS": 0.2}
        options["POLITENESS_MIN_DELAY"] = 0.2 * SLOWNESS  # so that URLs wait when it stops
        web.crawl(JOBDIR=path / "crawls/mine", CLOSESPIDER_PAGECOUNT=15, **options)
        assert KeptCheckpoints(path=path / "crawls/mine", count=1).keep()
        for name in ("crawls/sim-web/access.log", "access.log"):
            (path / name).parent.mkdir(exist_ok=True)
            if web.web.log_path != path / name:
                shutil.copy(web.web.log_path, path / name)
        (path / "seeds").mkdir()
        for name in ("seeds/top1m.csv", "first1000.csv", "mine.txt", "more.csv", "seeds.txt"):
            if path / name != web.seeds:
                shutil.copy(web.seeds, path / name)
        (path / "more.csv.gz").write_bytes((path / "more.csv").read_bytes())
        with gzip.open(path / "edges.gz", "wt") as edges:
            edges.write("a.test/ b.test/\nb.test/ a.test/\n")
        (path / "text").symlink_to("crawls/web/text")
        yield path, web


def lines_of(page):
    text = re.sub(r"\\\n\s*", "", PAGES[page])
    for line in re.findall(r"^    (\S.*)$", text, re.MULTILINE):
        yield from line.split(" && ")


def completed(words, web, place):
    """The words of a command, with what an example leaves to the reader: a web to crawl, an end."""
    url = web.seeds.read_text().split()[0]
    page = re.compile(r"http://((www\.)?example\.\w+|localhost:8000|site00001\.sim\.test:8080)/")
    words = [page.sub(lambda _: url, word) for word in words[1:]]
    if words[0] == "crawl":
        words = [word.replace("seeds=example.org", f"seeds={url}") for word in words]
    named = [
        [str(file.relative_to(place)) for file in sorted(place.glob(word))]
        if re.search(r"/\*\.|log\*$", word)
        else [word]
        for word in words
    ]
    return [*chain.from_iterable(named)]


def made_by(words):
    """The files and directories that a command writes, by its option -o."""
    named = [word for option, word in pairwise(words) if option in {"-o", "--output"}]
    ranks = ["crawls/web/graph/ranks.csv"] if words[:2] == ["pagerank", "crawls/web"] else []
    return ranks + [word for word in named if word != "-" and ":" not in word]


@each("page", *PAGES_RUN)
def test_each_command_of_a_page_does_what_the_page_says(crawled, tmp_path, page):
    made, web = crawled
    place = shutil.copytree(made, tmp_path / "place", symlinks=True)
    for line in lines_of(page):
        if re.match(r"(\S*bin/)?scrapy ", line) and not PARSED.search(line):
            words = completed(shlex.split(line, comments=True), web, place)
            match words[0]:
                case "crawl":
                    words += [*OPTIONS, "-s", f"DNS_SERVERS={web.web.dns}"]
                case "simweb":
                    ports = re.compile("80(80|53)")  # others may use them
                    words = [ports.sub("0", word) for word in words] + ["--seconds", "1"]
                case "shell":
                    words += ["-c", "response.status", "-s", f"DNS_SERVERS={web.web.dns}"]
            done = warm.scrapy(*words, cwd=place)
            assert "Traceback" not in done.stdout + done.stderr, line
            told = f"{line}: {done.stdout}{done.stderr}"
            assert done.returncode in {0, int(words[0] in MAY_BE_ONE)}, told
            for output in made_by(words):
                assert (place / output).exists(), told
        elif line.startswith("touch "):
            (place / line.removeprefix("touch ")).touch()
        elif line.startswith("select "):
            with duckdb.connect() as db, pytest.MonkeyPatch.context() as patch:
                patch.chdir(place)
                db.execute(line)

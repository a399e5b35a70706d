"""scrapy queue-build: each link of the stored pages that was not found before, once, by domain."""

import json
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import warm
from crawling import ROOT, refusal
from text_tables import cases, each
from warc_checks import page, warc_of

from webcrawl.items import Link
from webcrawl.pipelines.larm.writer import LarmWriter

MIB = 1 << 20
LONG = (pytest.mark.long, pytest.mark.timeout(3600))


def html(*urls):
    return b"".join(b'<a href="%s">x</a>' % url.encode() for url in urls)


def linking(url, *urls, head=b""):
    """The page *url*, which links to *urls*."""
    one = page(body=head + html(*urls), content_type="text/html", links=[])
    one.url = url
    return one


def moved(url, target):
    one = page(status=301, body=b"", redirect_target=target, links=[Link(target, kind="redirect")])
    one.url, one.content_type = url, ""
    return one


def store(directory, pages, *, files=1):
    """The WARC files with *pages*."""
    return [
        warc_of(directory, *pages[number::files], prefix=f"part{len([*directory.glob('*')])}")
        for number in range(files)
    ]


def larm(directory, pages):
    one = LarmWriter(directory=directory, form=str)
    one.open()
    for one_page in pages:
        one.write(one_page)
    one.close()
    return directory


def command(queue, *sources, **settings):
    words = [sys.executable, "-m", "scrapy", "queue-build", "--json", "--queue", str(queue)]
    for name, value in settings.items():
        words += ["-s", f"{name}={value}"]
    return [*words, *map(str, sources)]


def build(queue, *sources, code=0, **settings):
    """What the command says it has done."""
    done = warm.run(command(queue, *sources, **settings))
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def listed(built):
    """The URLs of the segment that was built, in their order."""
    with Path(built["segment"]["path"]).open(encoding="ascii") as file:
        return [line.removesuffix("\n").partition(",")[2] for line in file]


def test_a_segment_has_each_new_link_once_sorted_by_domain(tmp_path):
    queue = tmp_path / "queue"
    first = [
        linking("http://a.test/", "/x?utm_source=m", "/x", "http://www.b.org/2", "mailto:x@a.test"),
        linking("http://a.test/x", "http://a.test/", "http://c.test/", "http://b.org/1"),
        # Crawled, though the link to it was read before.
        linking("http://c.test/", "http://a.test/own", "http://a.test/x"),
        moved("http://c.test/old", "http://c.test/old/?"),
        linking("http://a.test/no", "/other", head=b"<meta name=robots content=nofollow>"),
    ]
    built = build(queue, *store(tmp_path / "warc", first, files=2))
    assert listed(built) == [
        "http://a.test/own",
        "http://b.org/1",
        "http://www.b.org/2",
        "http://c.test/old/?",
    ]
    assert built["segment"]["domains"] == 3
    assert build(queue, *(tmp_path / "warc").iterdir()) == {
        **dict.fromkeys(("pages", "links", "refused", "new", "remainder", "unsayable"), 0),
        "sources": 2,
        "unreadable": [],
        "segment": None,
    }
    # A mirror of a page is not followed, nor is a refused URL; a LARM directory is read as well.
    second = [
        linking("http://mirror.test/copy/", "http://c.test/bad.jpg", "new"),
        moved("http://www.b.org/2", "http://www.b.org/3"),
        linking("http://b.org/1", "http://c.test/bad.jpg", "new"),
    ]
    # What a run leaves that dies between a segment and its own end.
    (queue / "new-000001.txt").write_text("a.test\thttp://a.test/own\t0\n")
    (queue / "segment-000002.txt.tmp").write_text("0,http://a.")
    (queue / "taken-remainder-job-1.txt").write_text("# comment\n0,http://c.test/old/?\n")
    (queue / "remainder-job-1.txt").write_text("7,http://z.test/\n")
    # What a person leaves that looks at a segment: neither is one.
    (queue / "segment-000001.bak.txt").write_text("0,http://a.test/copied\n")
    built = build(queue, larm(tmp_path / "larm", second), URL_REFUSED_EXTENSIONS="jpg")
    (queue / "segment-000001.bak.txt").unlink()
    assert listed(built) == [
        "http://www.b.org/3",
        "http://c.test/old/?",
        "http://mirror.test/copy/new",
        "http://z.test/",
    ]
    assert built["remainder"] == 2
    assert build(queue, tmp_path / "larm")["segment"] is None
    assert sorted(path.name for path in queue.iterdir()) == [
        "segment-000001.txt",
        "segment-000002.txt",
        "state",
    ]


def test_a_damaged_source_gives_readable_pages_and_later_the_rest(tmp_path):
    pages = [linking(f"http://a.test/{n}", f"http://b.test/{n}") for n in range(20)]
    (whole,) = store(tmp_path / "warc", pages)
    data = whole.read_bytes()
    whole.write_bytes(data[: len(data) * 2 // 3])
    built = build(tmp_path / "queue", whole, code=2)
    readable = listed(built)
    assert 10 < len(readable) < 20
    assert "damaged after byte" in built["unreadable"][0]
    whole.write_bytes(data)
    rest = listed(build(tmp_path / "queue", whole))
    assert sorted([*readable, *rest]) == sorted(f"http://b.test/{n}" for n in range(20))


@cases(
    "arguments sentence",
    """
        ["README.md"]                  | give the directory of the queue with --queue DIR
        ["--queue", "q", "no.warc.gz"] | There is no file no.warc.gz: give a job, WARC files
    """,
)
def test_bad_input_is_one_sentence(arguments, sentence):
    assert sentence in refusal("queue-build", *arguments)


def numbered(rng, number, links):
    """A page with new links to hosts drawn by lot."""
    urls = [
        f"http://host{rng.randrange(50)}.example{rng.randrange(2000)}.test/{number}/{n}.html"
        for n in range(links)
    ]
    return linking(f"http://crawled.test/{number}", *urls), urls


@each("pages links kills", (60, 10, 1), pytest.param(100_000, 50, 3, marks=LONG))
def test_memory_is_bounded_and_kills_lose_nothing_for_any_number_of_links(
    tmp_path, pages, links, kills
):
    """The long one has five million links, and 512 MiB for the process."""
    rng = random.Random(5)
    files, expected = [], 0
    for part in range(4):
        made = [numbered(rng, number, links) for number in range(part, pages, 4)]
        files += store(tmp_path / "warc", [one for one, _ in made])
        expected += sum(hash(url) for _, urls in made for url in urls)
    words = command(tmp_path / "queue", *files)
    for _ in range(kills):
        run = warm.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        state = tmp_path / "queue/state/shards/00/seen"
        while run.poll() is None and not any(state.glob("discovered-*")):
            time.sleep(0.01)
        time.sleep(rng.random() * pages / 5000)
        run.send_signal(signal.SIGKILL)
        run.communicate()
    start = subprocess.Popen if kills > 1 else warm.Popen  # with a memory of its own
    peak = 0
    with (tmp_path / "out").open("wb") as out:
        run = start(words, cwd=ROOT, stdout=out)
        while run.poll() is None:
            # Not ru_maxrss, which would be that of all children of the tests.
            found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{run.pid}/status").read_text())
            peak = max(peak, 1024 * int(found[1]) if found else 0)
            time.sleep(0.05)
    urls = listed(json.loads((tmp_path / "out").read_text()))
    assert len(urls) == len({*urls}) == pages * links
    assert sum(map(hash, urls)) == expected
    domains = [url.split("/")[2].split(".", 1)[1] for url in urls]
    assert domains == sorted(domains)
    if kills > 1:
        assert 0 < peak < 512 * MIB


def test_scope_is_that_of_the_seeds_that_the_queue_was_given(tmp_path):
    pages = [linking("http://a.test/", "/1", "http://www.a.test/2", "http://b.test/")]
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("http://a.test/\n")
    built = build(
        tmp_path / "queue", *store(tmp_path / "w", pages), f"--seeds={seeds}", URL_SCOPE="seeds"
    )
    assert listed(built) == ["http://a.test/1", "http://www.a.test/2"]  # the seed was crawled
    assert built["refused"] == 1


def test_crawled_urls_are_known_in_other_spellings_and_after_torn_lines(tmp_path):
    """WARC files of other crawlers have URLs as they were found; a power failure tears store.log,
    and the crawl goes on where the torn line began."""
    foreign = [
        linking("HTTP://A.test:80/own", "http://b.test/"),
        linking("http://c.test/", "http://a.test/own"),
    ]
    directory = larm(tmp_path / "larm", [linking("http://d.test/1", "http://e.test/1")])
    log = directory / "store.log"
    whole = log.read_bytes()
    log.write_bytes(whole + b"http://d.test/1\thttp://d.test/2\thttp://d")
    queue = tmp_path / "queue"
    built = build(queue, directory, *store(tmp_path / "warc", foreign))
    assert listed(built) == ["http://b.test/", "http://e.test/1"]
    log.write_bytes(whole)
    larm(directory, [linking("http://d.test/", "http://f.test/")])
    assert listed(build(queue, directory)) == ["http://f.test/"]
    log.write_bytes(log.read_bytes() + b"x" * (1 << 20))
    built = build(queue, directory, code=2)
    assert "a line does not end" in built["unreadable"][0]

"""Documents and Requests that were made to collide under the hash without a seed."""

import asyncio
import json
import shutil
import subprocess

import warm
from crawling import warc_pages
from linked_site import Answer, command_for, crawl, served
from xxhash import xxh3_64_intdigest

from webcrawl.crawl.job.jobdir import read_checkpoint
from webcrawl.frontier.entry import Entry, key
from webcrawl.seen.fingerprint import document_fingerprint
from webcrawl.seen.url_trace import read_trace, write_trace
from webcrawl.urls.hash_seed import use_seed

# The first bytes of the secret of XXH3, which stands in its specification: of 16 bytes that begin
# with them, one factor of a product is zero, whatever the other eight are.
SECRET = bytes.fromhex("b8fe6c3923a44bbe")


def colliding(middle):
    assert len(middle) == 8
    return SECRET + middle + b"<p>the same end."


ONE, TWO = colliding(b"document"), colliding(b"another.")
PAGES = {
    "a.test/": Answer(b"<a href=/one>1</a><a href=/two>2</a><a href=/again>3</a>"),
    "a.test/one": Answer(ONE),
    "a.test/two": Answer(TWO),
    "a.test/again": Answer(ONE),
}


def seed_of(job):
    return read_checkpoint(job).own.facts["seed"]


async def test_two_documents_that_were_made_to_collide_are_both_stored(tmp_path):
    assert xxh3_64_intdigest(ONE) == xxh3_64_intdigest(TWO)
    async with served(PAGES) as sites:
        stats = await crawl(sites, tmp_path / "job", "a.test")
    assert set(sites.pages_asked) == PAGES.keys()
    stored = [body for _, body in warc_pages(tmp_path / "job/warc")]
    assert stored.count(ONE) == stored.count(TWO) == 1
    assert stats["content/duplicates"] == 1


async def test_a_job_of_before_the_seed_goes_on_without_one(tmp_path):
    job, trace = tmp_path / "job", tmp_path / "trace"
    write_trace(trace, [1])  # of the seed 0
    async with served(PAGES) as sites:
        await crawl(sites, job, "a.test", SEEN_CACHE=f"static:{trace}", CLOSESPIDER_PAGECOUNT=1)
        without_seed(job)
        await crawl(sites, job, "a.test")
    assert seed_of(job) == 0
    # What it has seen stays seen, and one document hides the other.
    assert sorted(sites.pages_asked) == sorted(PAGES)
    stored = [body for _, body in warc_pages(job / "warc")]
    assert stored.count(ONE) + stored.count(TWO) == 1


def without_seed(job):
    """As 1404b57 leaves it: all that it knows so far was hashed without a seed."""
    manifest = job / (job / "CURRENT").read_text().strip()
    content = json.loads(manifest.read_text())
    del content["facts"]["seed"]
    del content["crc32"]
    manifest.write_text(json.dumps(content))


async def test_a_job_keeps_its_seed_and_a_new_one_has_another(tmp_path):
    seeds = []
    async with served(PAGES) as sites:
        for name in ("one", "one", "two"):
            sites.asked.clear()
            await crawl(sites, tmp_path / name, "a.test", URL_TRACE=tmp_path / f"{name}.trace")
            seeds.append(seed_of(tmp_path / name))
            assert (sites.pages_asked == []) is (len(seeds) == 2)
        traces = [read_trace(tmp_path / f"{name}.trace") for name in ("one", "two")]
        assert seeds == [traces[0].seed, traces[0].seed, traces[1].seed]
        assert len({*seeds, 0}) == 3
        # A cache of what was popular would be of no use under another one.
        popular = f"static:{tmp_path / 'one.trace'}"
        await crawl(sites, tmp_path / "three", "a.test", SEEN_CACHE=popular)
        assert seed_of(tmp_path / "three") == seeds[0]
        shard = tmp_path / "one/shards/00"
        shutil.rmtree(shard)
        shutil.move(tmp_path / "two/shards/00", shard)
        command = command_for(sites, tmp_path / "one", "a.test")
        done = await asyncio.to_thread(warm.run, command, stderr=subprocess.STDOUT)
        assert done.returncode == 2
        assert (
            f"{shard} belongs to a job with another seed: move it into a new JOBDIR" in done.stdout
        )


def test_requests_that_were_made_to_collide_have_two_keys():
    # The done log hashes bodies by the seed and one: each half of the secret is that much further.
    one = (int.from_bytes(SECRET, "little") + 1).to_bytes(8, "little")
    bodies = [one + middle + b"<p>the same end." for middle in (b"document", b"another.")]
    entries = [Entry("http://a.test/", "a.test", extra=body) for body in bodies]
    assert len({key(entry) for entry in entries}) == 1
    assert document_fingerprint(ONE) == document_fingerprint(TWO)
    use_seed(2**64 - 1)
    assert len({key(entry) for entry in entries}) == 2
    assert document_fingerprint(ONE) != document_fingerprint(TWO)

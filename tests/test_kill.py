"""``kill -9`` at random moments: at the end nothing is missing, and no host was hurried."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter

from crawling import (
    ROOT,
    USER_AGENT,
    access_log,
    crawl_command,
    impolite,
    pages_asked_for,
    run_crawl,
    warc_urls,
)
from fastwarc.warc import ArchiveIterator

from webcrawl.simweb import allowed_urls, fetchable_urls, preset, start_in_process

KILLS = 20
MIN_DELAY = 0.4
SEED = 20


def test_a_crawl_killed_twenty_times_loses_nothing_and_stays_polite(tmp_path):
    rng = random.Random(SEED)
    # The largest host takes 80 pages * 0.4 s, so the crawl outlives the kills.
    world = preset("clean", http_port=0, https_port=0, hosts=150, mean_pages=8.0, max_pages=80)
    log, seeds, job = tmp_path / "access.log", tmp_path / "seeds.txt", tmp_path / "job"
    with start_in_process(world, log_path=log) as web:
        seeds.write_text("\n".join(web.world.seeds()) + "\n")
        command = crawl_command(
            web, seeds, job, POLITENESS_MIN_DELAY=MIN_DELAY, CHECKPOINT_INTERVAL_SECS=0.7
        )
        kills = 0
        while kills < KILLS:
            crawl = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
            for line in crawl.stderr:
                if "Spider opened" in line:
                    break
            time.sleep(rng.uniform(0.0, 2.5))
            assert crawl.poll() is None, f"the crawl ended by itself after {kills} kills"
            crawl.kill()
            crawl.stderr.close()
            crawl.wait()
            kills += 1
        last = run_crawl(command, timeout=200)
        assert last.returncode == 0, last.stdout
        assert "finished: nothing is left to fetch" in last.stdout
        web.stop()
        record = access_log(log)
        allowed = allowed_urls(web.world, USER_AGENT)
        fetchable = fetchable_urls(web.world, USER_AGENT)
    asked = Counter(pages_asked_for(record))
    again = sum(count - 1 for url, count in asked.items() if url in fetchable)
    stored = Counter(warc_urls(job / "warc"))
    print(
        f"\n{kills} kills: {len(asked)} of {len(allowed)} URLs asked for, "
        f"{len(set(stored) & fetchable)} of {len(fetchable)} documents stored, "
        f"{again} fetched again"
    )
    assert set(asked) == allowed
    assert impolite(record, min_delay=MIN_DELAY) == []
    # At most what was under way at a kill is fetched again.
    assert again <= KILLS * 200
    # Duplicates in content are asked for but not stored; nothing else is missing.
    unstored = fetchable - set(stored)
    contents = {}
    for path in sorted((job / "warc").glob("*.warc.gz")):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, verify_digests=True):
                assert record.verify_block_digest() is not False
                contents[record.headers.get("WARC-Payload-Digest")] = True
    assert not list((job / "warc").glob("*.open"))
    assert len(unstored) < len(fetchable) * 0.2

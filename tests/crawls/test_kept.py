"""A crawl that is killed is taken up again from the oldest of the checkpoints it has kept."""

from __future__ import annotations

import shutil
import time

from crawling import (
    USER_AGENT,
    access_log,
    crawl_command,
    impolite,
    pages_asked_for,
    run_crawl,
    start_crawl,
    wait_until,
)

from webcrawl.crawl.jobdir import read_checkpoint
from webcrawl.jobs.check.whole import check_job
from webcrawl.simweb import allowed_urls, preset, start_in_process
from webcrawl.storage.record_log import CorruptRecordError

MIN_DELAY = 0.2


def finished_in(path):
    """URLs that were finished when the checkpoint was made; 0 if it goes just now."""
    try:
        return read_checkpoint(path).own.facts["finished"]
    except (AttributeError, CorruptRecordError):
        return 0


def test_a_copy_of_the_oldest_kept_checkpoint_is_crawled_to_its_end(tmp_path):
    world = preset("clean", http_port=0, https_port=0, hosts=80, mean_pages=6.0, max_pages=30)
    log, seeds, job = tmp_path / "access.log", tmp_path / "seeds.txt", tmp_path / "job"
    copy = tmp_path / "copy"

    def command(jobdir):
        return crawl_command(
            web,
            seeds,
            jobdir,
            POLITENESS_MIN_DELAY=MIN_DELAY,
            # A host that was being contacted then rests as if that had lasted until now.
            POLITENESS_MAX_DELAY=1,
            CHECKPOINT_INTERVAL_SECS=0.5,
            CHECKPOINTS_KEPT_INTERVAL_SECS=0,
        )

    def kept():
        return sorted((job / "checkpoints").glob("??????"))

    with start_in_process(world, log_path=log) as web:
        seeds.write_text("\n".join(web.world.seeds()) + "\n")
        crawl = start_crawl(command(job))
        wait_until(lambda: len(kept()) == 3 and finished_in(kept()[0]) > 20)
        crawl.kill()
        crawl.stderr.close()
        crawl.wait()
        killed_at = time.time()
        oldest = kept()[0]
        made_at = oldest.stat().st_mtime
        refused = run_crawl(command(oldest))
        assert refused.returncode == 2
        assert f"cp -r {oldest} DIR" in refused.stdout
        shutil.copytree(oldest, copy)
        again = run_crawl(command(copy))
        assert again.returncode == 0, again.stdout
        assert "finished: nothing is left to fetch" in again.stdout
        allowed = allowed_urls(web.world, USER_AGENT)
        web.stop()
        record = [hit for hit in access_log(log) if "webcrawl" in hit.agent]
    before = [hit for hit in record if hit.end < made_at]
    after = [hit for hit in record if hit.start >= killed_at]
    finished = set(pages_asked_for(before))
    assert finished
    assert finished | set(pages_asked_for(after)) == allowed
    assert len(set(pages_asked_for(after))) < len(allowed)
    assert impolite(record, min_delay=MIN_DELAY) == []
    for jobdir in (job, copy, *kept()):
        assert check_job(jobdir, warc=True).damage == []

"""A job as webcrawl wrote it before 2026-11-21: one snapshot of the job and its shard."""

from __future__ import annotations

import json

from webcrawl.crawl.job.jobdir import read_checkpoint
from webcrawl.crawl.job.state_directory import StateDirectory, shard_path


def make_older(jobdir):
    """Give the stopped job in *jobdir* that form, with all that it says."""
    checkpoint = read_checkpoint(jobdir)
    own = checkpoint.own
    job = StateDirectory(path=jobdir, boot=own.boot_id)
    job.number_after(own.sequence)
    job.facts = facts = dict(own.facts)
    for part, data in own.snapshots.items():
        job.keep(part, data)
    for name, state in checkpoint.shards.items():
        shard = shard_path(jobdir, name)
        for part, data in state.snapshots.items():
            job.keep(f"shards/{name}/{part}", data)
        facts |= state.facts
        for pattern in ("CURRENT", "manifest-*", "snapshot-*"):
            for file in shard.glob(pattern):
                file.unlink()
    del facts["shards"]
    prepared = job.prepare()
    job.write(prepared)
    job.publish(prepared)
    manifest = jobdir / (jobdir / "CURRENT").read_text().strip()
    content = {**json.loads(manifest.read_text()), "format": 1}
    del content["crc32"]
    manifest.write_text(json.dumps(content))
    return jobdir

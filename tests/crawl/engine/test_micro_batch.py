"""Pages that arrive together run each stage back to back."""

import asyncio

from patience import SLOWNESS

from webcrawl.crawl.engine import micro_batch
from webcrawl.crawl.engine.micro_batch import MicroBatch


async def test_a_stage_begins_for_all_that_arrived_but_those_that_were_cancelled(monkeypatch):
    monkeypatch.setattr(
        micro_batch, "TOGETHER_SECS", 0.1 * SLOWNESS
    )  # so that a slow machine is in time
    reading, submitting = MicroBatch(), MicroBatch()
    done = []

    async def go_through(page):
        done.append(f"{page} taken over")
        await reading.wait()
        done.append(f"{page} read")
        await submitting.wait()
        done.append(f"{page} submitted")

    cancelled, *others = [asyncio.create_task(go_through(page)) for page in "dabc"]
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(*others)
    stages = ("taken over", "read", "submitted")
    assert done[1:] == [f"{page} {stage}" for stage in stages for page in "abc"]

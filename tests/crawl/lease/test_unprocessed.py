"""Pages that go through no processing module, handed over with a signal."""

import asyncio
import errno
from types import SimpleNamespace

import pytest
from patience import LIMIT_SECS
from scrapy.signalmanager import SignalManager
from text_tables import each
from warc_checks import page

from webcrawl.clock import now
from webcrawl.crawl.engine._fast_path import DirectSignals
from webcrawl.crawl.lease.fetch import Fetch, PageState
from webcrawl.crawl.lease.item_limit import ItemLimit
from webcrawl.errors import StoreError
from webcrawl.signals import ROBOTS, unprocessed


@pytest.fixture(params=[SignalManager, DirectSignals])
def signals(request):
    return request.param()


@pytest.fixture
def items(signals):
    stats = SimpleNamespace(inc_value=lambda _: None)
    engine = SimpleNamespace(scraper=SimpleNamespace(signals=signals))
    crawler = SimpleNamespace(signals=signals, stats=stats, engine=engine)
    return ItemLimit(clock=now, crawler=crawler)


@pytest.fixture
def fetch():
    return Fetch(lease=None, task=None, release=None)


async def test_every_handler_has_the_page_before_its_url_is_finished(signals, items, fetch, caplog):
    got = []
    await items.hand_over(page(), fetch, ROBOTS)  # to no one

    async def broken():
        raise ValueError("only this page's trouble")

    async def store(page, why):
        got.append((page.url, why))

    signals.connect(broken, unprocessed)
    signals.connect(store, unprocessed)
    await items.hand_over(page(3), fetch, ROBOTS)
    assert got == [("http://a.test/3", ROBOTS)]
    assert "only this page's trouble" in caplog.text


@each("number", errno.ENOSPC, errno.EIO)
async def test_a_disk_that_fails_is_the_error_of_the_callback(signals, items, fetch, number):
    async def store():
        raise StoreError(number, "no more")

    signals.connect(store, unprocessed)
    with pytest.raises(StoreError):
        await items.hand_over(page(), fetch, ROBOTS)


@each("at_end state", (True, PageState.PUT_BACK), (False, PageState.FAILED))
async def test_a_handler_that_never_answers_is_given_up(signals, items, fetch, at_end, state):
    async def mute():
        await asyncio.Event().wait()

    signals.connect(mute, unprocessed)
    handed = asyncio.create_task(items.hand_over(page(), fetch, ROBOTS))
    await asyncio.sleep(0)
    items.cut(0.0, at_end=at_end)
    await asyncio.wait_for(handed, LIMIT_SECS)
    assert fetch.page.state is state

"""Pages that go through no processing module, handed over with a signal."""

from __future__ import annotations

import errno

import pytest
from scrapy.signalmanager import SignalManager
from warc_checks import page

from webcrawl.crawl.unprocessed import hand_over
from webcrawl.errors import StoreError
from webcrawl.signals import ROBOTS, unprocessed


async def test_every_handler_has_the_page_before_its_url_is_finished(caplog):
    signals, got = SignalManager(), []
    await hand_over(signals, page(), ROBOTS)  # to no one

    async def broken():
        raise ValueError("only this page's trouble")

    async def store(page, why):
        got.append((page.url, why))

    signals.connect(broken, unprocessed)
    signals.connect(store, unprocessed)
    await hand_over(signals, page(3), ROBOTS)
    assert got == [("http://a.test/3", ROBOTS)]
    assert "only this page's trouble" in caplog.text


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
async def test_a_disk_that_fails_is_the_error_of_the_callback(number):
    signals = SignalManager()

    async def store():
        raise StoreError(number, "no more")

    signals.connect(store, unprocessed)
    with pytest.raises(StoreError):
        await hand_over(signals, page(), ROBOTS)

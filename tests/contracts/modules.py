"""What every processing module must do, and a way to run one without a crawl."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.utils.test import get_crawler
from text_tables import each

from webcrawl.items import Page
from webcrawl.signals import checkpoint

if TYPE_CHECKING:
    from webcrawl.pipelines.module import ProcessingModule


def a_page(body="", url="http://a.test/", **values):
    """An HTML page that was fetched well; *values* are other fields of ``webcrawl.items.Page``."""
    data = body.encode() if isinstance(body, str) else body
    given = {"status": 200, "content_type": "text/html", "fetched_at": 1_750_000_000.0, **values}
    given.setdefault("headers", [(b"Content-Type", given["content_type"].encode())])
    return Page(url=url, body=data, wire_body=given.pop("wire_body", data), **given)


class States:
    """The saved states of modules, as the scheduler has them; *saved* are those of the last run."""

    def __init__(self, saved):
        self._saved = saved
        self._parts = {}

    def attach(self, name, part):
        self._parts[name] = part
        return self._saved.get(name)

    def snapshot(self):
        return {name: part.snapshot() for name, part in self._parts.items()}


class Run:
    """A module in an event loop, from ``open_spider`` to ``close_spider``: ``async with Run(...)``.

    ``process`` gives it a page, ``checkpoint`` saves, ``states`` are what the next run is given as
    *saved*, ``stats`` are those of the module.
    """

    def __init__(
        self,
        kind,
        jobdir,
        saved=None,
        **settings,
    ):
        given = {"JOBDIR": str(jobdir), **settings}
        self.crawler = get_crawler(settings_dict=given)
        self.crawler._apply_settings()
        self.states = States(saved or {})
        self.crawler.engine = SimpleNamespace(scheduler=self.states)
        self.module = kind.from_crawler(self.crawler)

    async def __aenter__(self):
        await self.module.open_spider()
        return self

    async def __aexit__(self, *_):
        await self.module.close_spider()

    async def process(self, item):
        return await self.module.process_item(item)

    async def checkpoint(self):
        """What the module's handler of the signal returned."""
        sent = await self.crawler.signals.send_catch_log_async(signal=checkpoint)
        return [answer for _, answer in sent]

    @property
    def stats(self):
        prefix = f"modules/{self.module.stats.name}/"
        found = self.crawler.stats.get_stats()
        return {name[len(prefix) :]: found[name] for name in found if name.startswith(prefix)}


def run_module(kind, pages, jobdir, **settings):
    """*kind* after a crawl of *pages* in *jobdir*, with *settings*."""

    async def crawl():
        async with Run(kind, jobdir, **settings) as run:
            await asyncio.gather(*map(run.process, pages))
            await run.checkpoint()
        return run

    return asyncio.run(crawl())


_BODIES = {
    "empty": b"",
    "not text": bytes(range(256)) * 40,
    "cut off": b"<html><head><title>cut of",
    "deep": b"<div>" * 5000,
    "no characters": b"\xff\xfe\x00\xd8" * 100,
    "long word": b"<title>" + b"x" * 300_000,
}


class ModuleContract:
    """Subclasses name the class of a module, and what it needs of settings."""

    module: ClassVar[type[ProcessingModule]]
    settings: ClassVar[dict[str, Any]] = {}

    def run(self, pages, tmp_path):
        return run_module(self.module, pages, tmp_path, **self.settings)

    def media_type(self):
        """One that the module wants."""
        return self.module.content_types[0].replace("*/*", "text/html").replace("*", "png")

    @each("what", *_BODIES)
    def test_a_hostile_document_raises_nothing(self, what, tmp_path):
        for cut in (False, True):
            one = a_page(_BODIES[what], content_type=self.media_type(), body_cut=cut)
            assert self.run([one], tmp_path).stats["pages"] == 1

    def test_an_item_that_is_no_page_passes_a_module_untouched(self, tmp_path):
        async def process():
            async with Run(self.module, tmp_path, **self.settings) as run:
                item = {"url": "http://a.test/"}
                assert await run.process(item) is item
                assert run.stats["pages"] == 0

        asyncio.run(process())

    def test_a_module_opens_again_with_its_saved_state(self, tmp_path):
        pages = [a_page(f"<p>{n}</p>", content_type=self.media_type()) for n in range(3)]
        saved = self.run(pages, tmp_path).states.snapshot()
        again = run_module(self.module, [], tmp_path, saved=saved, **self.settings)
        assert again.states.snapshot() == saved

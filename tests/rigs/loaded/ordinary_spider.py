"""A spider as users write them, with ordinary Requests of every kind. Run by
test_spiders_ordinary.py in a process of its own; it knows nothing of the Mercator frontier."""

import asyncio
import json
import os
import secrets
import threading
from pathlib import Path

from scrapy import FormRequest, Request, Spider
from scrapy.exceptions import DropItem, IgnoreRequest
from scrapy.http import HtmlResponse

from webcrawl.signals import unprocessed


class Middleware:
    """Does with a request what its meta says."""

    def process_request(self, request):
        match request.meta.get("before"):
            case "ignore":
                raise IgnoreRequest("not this one")
            case "raise":
                raise KeyError("a bug in a middleware")
            case "answer":
                return HtmlResponse(request.url, body=b"made up")
            case "replace":
                return request.replace(url=request.meta["other"], meta={"name": "replaced before"})
        return None

    def process_response(self, request, response):
        match request.meta.get("after"):
            case "ignore":
                raise IgnoreRequest("not this answer")
            case "replace":
                return request.replace(url=request.meta["other"], meta={"name": "replaced after"})
        return response


class Pipeline:
    """Does with an item what it says."""

    def process_item(self, item):
        if item.get("drop"):
            raise DropItem("not wanted")
        if item.get("raise"):
            raise RuntimeError("a bug in a pipeline")
        return item


class Recorder(Spider):
    """Writes down what its callbacks are called with, a line of JSON each."""

    custom_settings = {  # noqa: RUF012  # as users write it
        "DOWNLOADER_MIDDLEWARES": {"ordinary_spider.Middleware": 500},
        "ITEM_PIPELINES": {"ordinary_spider.Pipeline": 1},
    }

    @classmethod
    def from_crawler(cls, crawler, *, plan, record):
        spider = super().from_crawler(crawler)
        spider.plan = json.loads(Path(plan).read_text())
        spider.record = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        return spider

    def note(self, name, **facts):
        os.write(self.record, json.dumps({"name": name, **facts}).encode() + b"\n")

    def answered(self, response, **kwargs):
        self.note(
            response.meta["name"],
            url=response.url,
            status=response.status,
            meta=response.meta.get("mine"),
            kwargs=kwargs,
        )

    def failed(self, failure):
        self.note(
            failure.request.meta["name"],
            url=failure.request.url,
            error=type(failure.value).__name__,
        )


class OrdinarySpider(Recorder):
    """One Request for each way in which one can end."""

    name = "ordinary"

    @classmethod
    def from_crawler(cls, crawler, **arguments):
        spider = super().from_crawler(crawler, **arguments)
        crawler.signals.connect(spider.handed, unprocessed)
        return spider

    def handed(self, page, why):
        self.note(why, url=page.url, status=page.status)

    def ask(self, name, **changes):
        options = {"callback": self.answered, "errback": self.failed, **changes}
        options["meta"] = {"name": name, **changes.get("meta", {})}
        return Request(self.plan[name], **options)

    async def start(self):
        other = {"other": self.plan["other"]}
        yield self.ask(
            "plain", meta={"mine": ["deep", {"a": 1}]}, cb_kwargs={"k": "v"}, headers={"X-A": "b"}
        )
        for _ in range(2):
            yield self.ask("twice", dont_filter=True)
            yield self.ask("once")
        yield FormRequest(
            self.plan["post"],
            formdata={"q": "x"},
            callback=self.answered,
            meta={"name": "post", "handle_httpstatus_list": [405]},
        )
        for name in ("redirecting", "failing", "denied", "nowhere", "no host"):
            yield self.ask(name)
        yield self.ask("callback raises", callback=self.raising)
        yield self.ask("pipeline raises", callback=self.bad_item)
        yield self.ask("item dropped", callback=self.dropped_item)
        for name, act in (("ignored", "ignore"), ("raises", "raise"), ("answered", "answer")):
            yield self.ask(f"{name} before", meta={"before": act})
        yield self.ask("replaced before", meta={"before": "replace", **other})
        yield self.ask("ignored after", meta={"after": "ignore"})
        yield self.ask("replaced after", meta={"after": "replace", **other}, dont_filter=True)
        yield self.ask("without errback", errback=None)
        yield self.ask("errback asks", errback=self.asking, meta={"before": "ignore"})
        yield self.ask("errback raises", errback=self.raising, meta={"before": "ignore"})
        yield self.ask("asynchronous", callback=self.asynchronous)
        yield self.ask("generator", callback=self.generating)
        yield self.ask("own download", callback=self.downloading)
        yield self.ask("in memory", meta={"lock": threading.Lock()}, callback=self.locking)
        yield self.ask("closure", callback=lambda response: self.answered(response, closure=True))
        yield self.ask("class callback", callback=Outside().answered)
        for name in self.plan:
            if name.startswith("one site"):
                yield self.ask(name)
        yield {"from": "start"}

    def raising(self, response_or_failure):
        raise RuntimeError("a bug in a callback")

    def bad_item(self, response):
        self.answered(response)
        yield {"raise": True}

    def dropped_item(self, response):
        self.answered(response)
        yield {"drop": True}
        yield {"kept": True}

    def asking(self, failure):
        self.failed(failure)
        yield self.ask("asked by errback")

    async def asynchronous(self, response):
        await asyncio.sleep(0.01)
        self.answered(response)
        yield {"kept": True}

    def generating(self, response):
        self.answered(response)
        for number in range(250):  # all but the first are duplicates
            yield self.ask("generated", meta={"number": number})
        yield {"kept": True}

    async def downloading(self, response):
        """As many do: a download of the callback's own, with the meta of the response."""
        request = Request(self.plan["downloaded"], meta=response.meta)
        own = await self.crawler.engine.download_async(request)
        self.answered(response, own=own.status)

    def locking(self, response):
        with response.meta["lock"]:
            self.answered(response)


class Outside:
    """Somebody else's callback."""

    def answered(self, response):
        response.request.meta["name"] = "class callback"
        os.environ["OUTSIDE"] = response.url


class WaitingSpider(Recorder):
    """POSTs to every URL of the plan, but only in the first run."""

    name = "waiting"
    handle_httpstatus_list = [404, 405]  # noqa: RUF012  # as users write it

    async def start(self):
        if self.plan["first"]:
            for number, url in enumerate(self.plan["urls"]):
                yield FormRequest(
                    url,
                    formdata={"number": str(number)},
                    callback=self.answered,
                    errback=self.failed if number % 2 else None,
                    meta={"name": "post", "mine": number, **self.plan.get("meta", {})},
                )
            self.note("all are asked for")


class TreeSpider(Recorder):
    """Each root has children, which are known to nobody else; roots only in the first run."""

    name = "tree"

    async def start(self):
        if self.plan["first"]:
            for url in self.plan["urls"]:
                yield Request(url, callback=self.root, meta={"name": "root"})

    def root(self, response):
        for number in range(self.plan["children"]):
            yield Request(
                f"{response.url}child/{number}",
                callback=self.answered,
                meta={
                    "name": "child",
                    "padding": secrets.token_hex(10_000),
                },  # not to be compressed
            )


class IllustratedSpider(Recorder):
    """Each callback downloads something by itself before it is through, as media pipelines do."""

    name = "illustrated"

    async def start(self):
        for number, url in enumerate(self.plan["urls"]):
            yield Request(url, callback=self.page, meta={"name": "page", "mine": number})

    async def page(self, response):
        images = [Request(f"{response.url}image/{n}") for n in range(self.plan["images"])]
        own = [await self.crawler.engine.download_async(image) for image in images]
        self.answered(response, own=[image.status for image in own])


class Asking:
    """A middleware that downloads something by itself for each request that names it."""

    @classmethod
    def from_crawler(cls, crawler):
        middleware = cls()
        middleware.crawler = crawler
        return middleware

    async def download(self, request, url):
        try:
            answer = await self.crawler.engine.download_async(Request(url))
        except IgnoreRequest as error:
            request.meta["mine"] = str(error)
        else:
            request.meta["mine"] = answer.status

    async def process_request(self, request):
        if "ask before" in request.meta:
            await self.download(request, request.meta["ask before"])

    async def process_response(self, request, response):
        if "ask after" in request.meta:
            await self.download(request, request.meta["ask after"])
        return response


class AskingSpider(Recorder):
    """Requests whose middleware downloads from their own host and from another one."""

    name = "asking"
    custom_settings = {  # noqa: RUF012  # as users write it
        "DOWNLOADER_MIDDLEWARES": {"ordinary_spider.Asking": 500},
        "CONCURRENT_REQUESTS": 1,
    }

    async def start(self):
        for name, (url, when, other) in self.plan.items():
            yield Request(url, callback=self.answered, meta={"name": name, when: other})

"""Clients that read the same answers: this crawler, curl, stock Scrapy and Chromium.

Each function gets URLs by number and returns a `Reading` for each of them. All time-outs are
short: an answer that never ends is a failure for every client.
"""

import asyncio
import base64
import inspect
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import uvloop
from browsing import chromium
from fetching import handler_with
from patience import SLOWNESS
from scrapy import Request

from webcrawl.net.http.decoding import ContentDecodingMiddleware
from webcrawl.net.outcomes import outcome_of

#: Seconds for one answer.
TIMEOUT = 4 * SLOWNESS
_AT_ONCE = 40
_STOCK_READER = Path(__file__).with_name("stock_reader.py")
# Flags of a body that is not whole, or of which nobody can say what it is.
_FAILED = frozenset({"dataloss", "truncated", "undecodable"})


class Reading(NamedTuple):
    """What a client made of an answer.

    status: 0 if it could not read the head.
    body: decoded; as far as it came if the client failed after the head.
    failure: why the client failed, in its own words; empty if the body is whole.
    """

    status: int
    body: bytes
    failure: str = ""

    @property
    def is_success(self):
        """Whether the status is one of success."""
        return 200 <= self.status < 300

    @property
    def is_document(self):
        """Whether it is a whole answer with a status of success."""
        return self.is_success and not self.failure


def read_by_crawler(urls):
    """Read by this crawler's download handler and decoding middleware."""

    async def read():
        gate = asyncio.Semaphore(_AT_ONCE)
        settings = {
            "DOWNLOAD_TIMEOUT": TIMEOUT,
            "NET_FIRST_BYTE_TIMEOUT_SECS": TIMEOUT - 1,
            "NET_MIN_RATE_SECS": TIMEOUT - 1,
        }
        async with handler_with(**settings) as handler:
            decoding = ContentDecodingMiddleware.from_crawler(handler.crawler)

            async def one(url):
                request = Request(url)
                decoding.process_request(request)
                async with gate:
                    try:
                        response = await handler.download_request(request)
                    except Exception as error:  # noqa: BLE001  the outcome is what is asked for
                        return Reading(0, b"", f"{outcome_of(error)}: {error}")
                    decoded = decoding.process_response(request, response)
                    response = await decoded if inspect.isawaitable(decoded) else decoded
                failed = ", ".join(response.flags) if _FAILED & {*response.flags} else ""
                return Reading(response.status, response.body, failed)

            readings = await asyncio.gather(*map(one, urls.values()))
        return dict(zip(urls, readings, strict=True))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(read())


def read_by_curl(urls):
    """Read by ``curl --compressed``, a process for each URL: some failures end a process."""
    with (
        tempfile.TemporaryDirectory() as name,
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        files = [Path(name) / str(number) for number in urls]
        readings = pool.map(_curl, urls.values(), files)
        return dict(zip(urls, readings, strict=True))


def _curl(url, file):
    options = [
        *("--silent", "--compressed", "--http1.1", "--noproxy", "*", "--max-time", str(TIMEOUT)),
        *("--write-out", "%{exitcode} %{response_code} %{errormsg}", "--output", file),
    ]
    run = subprocess.run(["curl", *options, url], stdout=subprocess.PIPE, check=False)
    code, status, error = run.stdout.decode("latin-1").split(" ", 2)
    body = file.read_bytes() if file.exists() else b""
    return Reading(int(status), body, "" if code == "0" else f"{code}: {error}")


def read_by_scrapy(urls):
    """Read by stock Scrapy, in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        asked, record = Path(name) / "asked", Path(name) / "record"
        asked.write_text(json.dumps(urls))
        subprocess.run(
            [sys.executable, _STOCK_READER, asked, record, str(TIMEOUT)],
            cwd=name,
            check=True,
        )
        readings = {}
        for line in record.read_text().splitlines():
            number, status, body, failure = json.loads(line)
            readings[number] = Reading(status, base64.b64decode(body), failure)
    return {number: readings[number] for number in urls}


# Run in a page: all URLs, some of them at the same time, each until its end or the time-out.
_FETCH_ALL = """
async ({urls, atOnce, seconds}) => {
  const readings = [];
  const encode = bytes => {
    let text = "";
    for (let n = 0; n < bytes.length; n += 32768)
      text += String.fromCharCode(...bytes.subarray(n, n + 32768));
    return btoa(text);
  };
  let next = 0;
  const work = async () => {
    while (next < urls.length) {
      const number = next++;
      const reading = readings[number] = {status: 0, body: "", failure: ""};
      const parts = [];
      const stop = new AbortController();
      const timer = setTimeout(() => stop.abort(), seconds * 1000);
      try {
        const options = {signal: stop.signal, cache: "no-store", redirect: "manual"};
        const response = await fetch(urls[number], options);
        reading.status = response.status;
        if (response.body)
          for (const reader = response.body.getReader();;) {
            const {done, value} = await reader.read();
            if (done) break;
            parts.push(...value);
          }
      } catch (error) {
        reading.failure = String(error);
      }
      clearTimeout(timer);
      reading.body = encode(new Uint8Array(parts));
    }
  };
  await Promise.all(Array.from({length: atOnce}, work));
  return readings;
}
"""


def read_by_chromium(urls, home):
    """Read by ``fetch()`` in a page of Chromium at the URL *home*."""
    failures = {}

    def failed(request):
        failures[request.url] = request.failure or ""

    # The page may read what comes from other addresses.
    with chromium("--disable-web-security", "--no-proxy-server") as browser:
        page = browser.new_page()
        page.goto(home)
        page.on("requestfailed", failed)
        asked = {"urls": list(urls.values()), "atOnce": _AT_ONCE, "seconds": TIMEOUT}
        answers = page.evaluate(_FETCH_ALL, asked)
    readings = {}
    for (number, url), answer in zip(urls.items(), answers, strict=True):
        failure = answer["failure"] and failures.get(url, answer["failure"])
        readings[number] = Reading(answer["status"], base64.b64decode(answer["body"]), failure)
    return readings

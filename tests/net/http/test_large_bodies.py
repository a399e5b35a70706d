"""Bodies beyond PAGE_MAX_BYTES: a few at a time, and only with a permit."""

import asyncio
import gzip
import random

from fetching import answer_to, served
from loopback import head
from scrapy import Request
from scrapy.http import Headers, Response
from scrapy.utils.test import get_crawler
from text_tables import cases

from webcrawl.net.http.decoding import ContentDecodingMiddleware
from webcrawl.net.http.large_bodies import LARGE_BODY, LargeBodies

PAGE = {"PAGE_MAX_BYTES": 10_000}
MIB = 1 << 20
NOISE = random.Random(1).randbytes(300_000)
TEXT = b"".join(b"<loc>http://a.test/%d</loc>\n" % n for n in range(50_000))


def bodies(**options):
    return LargeBodies(**{"max_bytes": 200_000, "at_once": 1, "patience": 0.05} | options)


def says(body):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


async def test_permits_are_held_one_at_a_time_and_given_back_once():
    large = bodies()
    one, two, three = large.permit(), large.permit(), large.permit()
    assert await one.acquire()
    assert await one.acquire()
    assert not await two.acquire()
    waiting = asyncio.ensure_future(three.acquire())
    await asyncio.sleep(0)
    one.give_back()
    one.give_back()
    assert await waiting
    assert not await two.acquire()
    assert not await one.acquire()
    three.give_back()
    assert await two.acquire()


async def test_a_permit_that_comes_too_late_is_free_for_others():
    large = bodies(patience=5)
    one, two = large.permit(), large.permit()
    assert await one.acquire()
    waiting = asyncio.ensure_future(two.acquire())
    await asyncio.sleep(0)
    two.give_back()  # its request is over
    one.give_back()
    assert not await waiting
    assert await large.permit().acquire()


@cases(
    "size kept flags",
    """
        10_000  | 10_000  | []
        10_001  | 10_001  | []
        200_000 | 200_000 | []
        200_001 | 200_000 | ["truncated"]
        300_000 | 200_000 | ["truncated"]
    """,
)
def test_with_a_permit_a_body_may_be_as_large_as_it_allows(size, kept, flags):
    response = answer_to(says(NOISE[:size]), **PAGE, large_body=bodies().permit())
    assert (len(response.body), response.flags) == (kept, flags)
    assert response.body == NOISE[:kept]


def test_without_it_in_time_a_body_is_cut_like_a_page():
    large = bodies()
    asyncio.run(large.permit().acquire())
    response = answer_to(says(NOISE[:20_000]), **PAGE, large_body=large.permit())
    assert (len(response.body), response.flags) == (10_000, ["truncated"])


def test_a_permit_for_less_than_a_page_changes_nothing():
    large = bodies(max_bytes=5)
    response = answer_to(says(NOISE[:20_000]), **PAGE, large_body=large.permit())
    assert len(response.body) == 10_000
    assert asyncio.run(large.permit().acquire())


def decoded(packed, permit):
    """What the middleware makes of *packed*, and the request."""
    middleware = ContentDecodingMiddleware(max_bytes=10_000)
    request = Request("http://a.test/", meta={} if permit is None else {LARGE_BODY: permit})
    response = Response("http://a.test/", body=packed)
    response.headers = Headers({"Content-Encoding": "gzip", "Content-Type": "text/xml"})

    async def scenario():
        made = middleware.process_response(request, response)
        return await made if asyncio.iscoroutine(made) else made

    return asyncio.run(scenario()), request


def test_a_large_body_is_decoded_whole_with_a_permit_and_cut_without():
    packed = gzip.compress(TEXT)
    response, request = decoded(packed, bodies(max_bytes=1 << 22).permit())
    assert (response.body, response.flags) == (TEXT, [])
    assert request.meta["wire_body"] == packed
    response, _ = decoded(packed, bodies(max_bytes=50_000).permit())
    assert (response.body, response.flags) == (TEXT[:50_000], ["truncated", "body_cut"])
    response, _ = decoded(packed, None)
    assert (response.body, response.flags) == (TEXT[:10_000], ["truncated", "body_cut"])
    large = bodies()
    asyncio.run(large.permit().acquire())
    response, _ = decoded(packed, large.permit())
    assert (response.body, response.flags) == (TEXT[:10_000], ["truncated", "body_cut"])


def test_a_small_body_needs_no_permit():
    large = bodies()
    asyncio.run(large.permit().acquire())
    response, _ = decoded(gzip.compress(TEXT[:9000]), large.permit())
    assert (response.body, response.flags) == (TEXT[:9000], [])
    middleware = ContentDecodingMiddleware.from_crawler(get_crawler(settings_dict=PAGE))
    plain = Response("http://a.test/", body=b"x")
    assert middleware.process_response(Request("http://a.test/"), plain) is plain


async def test_a_crowd_of_the_largest_pages_is_bounded_in_what_it_holds():
    """Of 40 at once, 3 with a permit: the others wait for their turn, and are cut at 1 MiB then."""
    large = bodies(max_bytes=5 * MIB, at_once=3, patience=0.3)
    async with served([head, says(bytes(5 * MIB))], DOWNLOAD_TIMEOUT=60) as (_, get):
        gets = (get(meta={LARGE_BODY: large.permit()}) for _ in range(40))
        answers = await asyncio.gather(*gets)
    sizes = [len(answer.body) for answer in answers]
    assert sorted(sizes) == [MIB] * 37 + [5 * MIB] * 3

"""Item pipelines that take a fifth of a second for each page."""

import asyncio

SECS = 0.2


class OneByOne:
    """Off the event loop, as it awaits, one page after the other."""

    def __init__(self):
        self._turn = asyncio.Lock()

    async def process_item(self, page):
        async with self._turn:
            await asyncio.sleep(SECS)
        return page


class Blocking:
    """In the event loop, which does nothing else meanwhile, as if it called ``time.sleep``."""

    async def process_item(self, page):
        asyncio.get_running_loop().pass_time(SECS)
        return page

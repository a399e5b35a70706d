"""What the doctor knows of processing modules, and that measuring changes nothing for them."""

import asyncio

import pytest
from scrapy.exceptions import DropItem

from webcrawl.doctor.module_times import ModuleTimes


class Module:
    """Takes 2 s of the loop before each wait, and after the last one; fails as *error* says."""

    def __init__(self, clock):
        self.clock = clock
        self.error = None

    def work(self, item):
        self.clock.advance(2)
        if self.error is not None:
            raise self.error
        return item

    def process_item(self, item):
        return self.work(item)

    async def process_later(self, item):
        self.clock.advance(2)
        try:
            await item
        except asyncio.CancelledError:
            return "given up"
        return self.work(item.result())


@pytest.fixture
def module(clock):
    return Module(clock)


@pytest.fixture
def times(clock):
    return ModuleTimes(clock=clock)


def test_the_module_that_takes_the_most_of_the_loop_is_named(module, times, clock):
    process = times.watch(module.process_item)
    times.watch(Module(clock).process_item)
    clock.advance(6)
    assert process("item") == "item"
    module.error = DropItem("no")
    with pytest.raises(DropItem):
        process("item")
    assert times.take() == (f"{__name__}.Module", 0.4)
    clock.advance(1)
    assert times.take() == ("", 0.0)


async def test_a_coroutine_is_measured_between_its_waits(module, times, clock):
    process = times.watch(module.process_later)
    answers = [asyncio.get_running_loop().create_future() for _ in range(3)]
    pages = [asyncio.ensure_future(process(answer)) for answer in answers]
    await asyncio.sleep(0)
    clock.advance(90)
    answers[0].set_result("item")
    assert await pages[0] == "item"
    pages[1].cancel()
    assert await pages[1] == "given up"
    module.error = ValueError("no")
    answers[2].set_result("item")
    with pytest.raises(ValueError, match="no"):
        await pages[2]
    assert times.take() == (f"{__name__}.Module", 0.1)

"""Receives commands for the running crawl: over a Unix socket, or Redis in a hive (control/)."""

from __future__ import annotations

import logging
from shlex import quote
from typing import TYPE_CHECKING, Any, Self, cast

from scrapy import signals
from scrapy.exceptions import NotConfigured

from webcrawl.configuration.values import flag
from webcrawl.control.control import Control
from webcrawl.control.unix_socket import ControlSocket
from webcrawl.scheduler import process_of
from webcrawl.wording import COMMAND

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


class TakesCommands:
    """Extension that starts to accept commands before the first request is sent."""

    control: Control | None = None
    _socket: ControlSocket | None = None

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not (crawler.settings["JOBDIR"] and flag(crawler.settings, "CONTROL_ENABLED")):
            raise NotConfigured
        extension = cls(crawler)
        crawler.signals.connect(extension.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signal=signals.spider_closed)
        return extension

    async def spider_opened(self) -> None:
        """Start to accept commands. In a hive they come over Redis, otherwise over a socket."""
        process = process_of(self._crawler)
        if process is None:  # the crawl has another scheduler
            return

        job = process.job
        hive = self._crawler.settings.get("HIVE")
        command_line = f"{COMMAND} control {f'-s HIVE={hive}' if hive else quote(str(job.path))}"
        self.control = Control(process, command_line=command_line)
        try:
            await self.control.open()
            if hive:
                from webcrawl.control.hive import HiveControl  # noqa: PLC0415  # needs Redis
                from webcrawl.hive.membership.keys import Keys  # noqa: PLC0415  # likewise

                drone = cast("Any", self._crawler.engine.scheduler).drone
                commands = HiveControl(
                    client=drone.parts.client,
                    keys=Keys(hive),
                    store=drone.parts.store,
                    name=drone.parts.name,
                    control=self.control,
                )
                drone.run(commands.run())  # as one of its background tasks
                return
        except Exception as error:  # noqa: BLE001  # Scrapy would continue without the commands in force
            process.stop.fail(error)
            return

        # Without the socket, the crawl can still follow the commands that were given earlier.
        self._socket = ControlSocket(jobdir=job.path, control=self.control)
        try:
            await self._socket.open()
        except OSError as error:
            logger.warning("%s control cannot reach this crawl: %s", COMMAND, error)

    async def spider_closed(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self.control is not None:
            self.control.close()

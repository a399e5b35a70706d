"""Answers that were given before, ready to be given again.

A client to be measured must never wait for the server to make a page: with a pool the second
client that asks for it gets bytes that lie ready, gzipped and in one piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.simweb.answers import Answer, answer_to

if TYPE_CHECKING:
    from webcrawl.simweb.hosts import HostSpec
    from webcrawl.simweb.world import World


class AnswerPool:
    """Gives the answers of *world*, and keeps the first *max_bytes* of bodies for good; 0: none."""

    def __init__(self, world: World, *, max_bytes: int) -> None:
        self._world = world
        self._left = max_bytes
        self._answers: dict[tuple[int, str, bool], Answer] = {}

    def answer_to(self, host: HostSpec, target: str, *, gzip: bool) -> Answer:
        """As `webcrawl.simweb.answers.answer_to`."""
        key = (host.index, target, gzip)
        answer = self._answers.get(key)
        if answer is None:
            answer = answer_to(self._world, host, target, gzip=gzip)
            size = sum(map(len, answer.parts))
            if 0 < size <= self._left:
                answer = self._answers[key] = answer._replace(parts=[b"".join(answer.parts)])
                self._left -= size
        return answer

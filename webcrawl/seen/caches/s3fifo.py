"""S3-FIFO (Yang et al., SOSP 2023): three FIFO queues, of which one has ghosts."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MOST: Final = 3


class S3FifoCache:
    """S3-FIFO: a small queue for a tenth of the entries, the main queue, a queue of ghosts.

    New entries go through the small queue. What was used at least twice in it goes on to the main
    queue; of the others a ghost stays, a fingerprint that is not held, as many as the main queue
    may have. What is admitted while its ghost is there goes to the main queue, from whose end an
    entry that was used goes back to the beginning, at most three times.
    """

    def __init__(self, *, size: int) -> None:
        self.size = size
        self.clear()

    def clear(self) -> None:
        self._small_size = max(1, self.size // 10)
        # How often each that is held was used, up to _MOST.
        self._uses: dict[int, int] = {}
        self._small: deque[int] = deque()
        self._main: deque[int] = deque()
        self._ghosts: OrderedDict[int, None] = OrderedDict()

    def resize(self, size: int) -> None:
        """The newest stay, those of the main queue first, as if never used; no ghosts do."""
        main, small = self._main, self._small
        self.size = size
        self.clear()
        keep = size - self._small_size
        self._main.extend([*main][-keep:] if keep else ())
        self._small.extend([*small][-self._small_size :])
        self._uses = dict.fromkeys((*self._main, *self._small), 0)

    def misses(self, fps: Sequence[int]) -> list[int]:
        uses = self._uses
        get = uses.get
        missed = []
        for index, fp in enumerate(fps):
            count = get(fp)
            if count is None:
                missed.append(index)
            elif count < _MOST:
                uses[fp] = count + 1
        return missed

    def admit(self, fps: Iterable[int]) -> None:
        uses, ghosts = self._uses, self._ghosts
        for fp in fps:
            if fp in uses:
                continue
            while len(uses) >= self.size:
                if len(self._small) >= self._small_size:
                    self._evict_small()
                else:
                    self._evict_main()
            if fp in ghosts:
                del ghosts[fp]
                self._main.append(fp)
            else:
                self._small.append(fp)
            uses[fp] = 0

    def _evict_small(self) -> None:
        uses, small, main, ghosts = self._uses, self._small, self._main, self._ghosts
        most = self.size - self._small_size
        while small:
            fp = small.popleft()
            if uses[fp] > 1:
                uses[fp] = 0
                main.append(fp)
                if len(main) > most:
                    self._evict_main()
                continue
            del uses[fp]
            ghosts[fp] = None
            if len(ghosts) > most:
                ghosts.popitem(last=False)
            return

    def _evict_main(self) -> None:
        uses, main = self._uses, self._main
        while True:
            fp = main.popleft()
            if not uses[fp]:
                del uses[fp]
                return
            uses[fp] -= 1
            main.append(fp)

    def __contains__(self, fp: int) -> bool:
        return fp in self._uses

    def __len__(self) -> int:
        return len(self._uses)

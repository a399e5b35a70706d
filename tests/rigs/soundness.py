"""The invariants of what a crawl keeps: all counts, counted again."""

from __future__ import annotations

from collections import Counter
from functools import singledispatch
from typing import TYPE_CHECKING

from webcrawl.frontier import Frontier
from webcrawl.frontier.back_end import BackEnd
from webcrawl.frontier.back_queue import QueueState
from webcrawl.frontier.front_end import FrontEnd
from webcrawl.seen import ContentSeen, Eliminator
from webcrawl.seen.bloom import BloomSet, filter_path
from webcrawl.seen.bloom_file import read_filter
from webcrawl.seen.levels import overlap
from webcrawl.seen.run_scan import scan_run
from webcrawl.seen.url_log import read_frames
from webcrawl.storage.fifo import DiskFifo, read_fifo
from webcrawl.storage.record_log import CorruptRecordError, unpack_many

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webcrawl.seen.runs import Run


@singledispatch
def problems(part: object) -> list[str]:
    """What is wrong with *part*; empty means sound. Reads all of its files."""
    raise TypeError(f"no invariants of a {type(part).__name__}")


def _differing(*counts: tuple[str, object, object]) -> list[str]:
    return [f"{name}: {kept} kept, {found} found" for name, kept, found in counts if kept != found]


@problems.register
def _(queue: DiskFifo) -> list[str]:
    named = queue._snapshot_from
    state = queue.snapshot()
    queue._snapshot_from = named  # nobody publishes that one
    try:
        found = sum(len(unpack_many(piece)) for piece in read_fifo(queue.path, state))
    except (CorruptRecordError, OSError, ValueError) as error:
        return [str(error)]
    return _differing((f"items of {queue.path}", len(queue), found))


@problems.register
def _(front: FrontEnd) -> list[str]:
    lengths = [len(fifo) for fifo in front._fifos]
    found = _differing(
        ("entries of the levels", front._waiting, lengths),
        ("entries of the front end", front.size, sum(lengths)),
        ("levels with entries", front._filled, [n for n, size in enumerate(lengths, 1) if size]),
    )
    return found + [problem for fifo in front._fifos for problem in problems(fifo)]


@problems.register
def _(back: BackEnd) -> list[str]:
    queues = [*back._table.values()]
    hosts = {state: Counter(q.host for q in queues if q.state is state) for state in QueueState}
    heap = [queue for *_, queue in back._snoozed]
    overflows = [queue.overflow for queue in queues if queue.overflow is not None]
    idle = [queue for queue in queues if queue.state is not QueueState.IN_PROCESS]
    shares = back._shares
    domains = {queue.domain for queue in queues}
    holding = [*shares._holding]
    wanted = sum(max(0, min(one.hosts, shares._most) - one.busy) for one in domains)
    stuck = [one for one in holding if shares.is_within(one) and one.hosts == len(one.held)]
    found = _differing(
        ("hosts", [*back._table], [queue.host for queue in queues]),
        ("the line", Counter(queue.host for queue in back._ready), hosts[QueueState.READY]),
        ("the heap", Counter(queue.host for queue in heap), hosts[QueueState.SNOOZED]),
        ("times", [at for at, *_ in back._snoozed], [queue.ready_at for queue in heap]),
        ("held", Counter(q.host for one in holding for q in one.held), hosts[QueueState.HELD]),
        ("number of held", back.held, hosts[QueueState.HELD].total()),
        ("in process", back.in_process, hosts[QueueState.IN_PROCESS].total()),
        ("near", back.near, sum(not queue.is_far for queue in heap)),
        ("waiting entries", back.size, sum(map(len, queues))),
        ("spilled", back.spilled, len(overflows)),
        ("empty queues", [], [queue.host for queue in idle if not queue]),
        ("empty overflows", [], [one.path for one in overflows if not len(one)]),
        ("queues beyond the limit", 0, max(0, len(queues) - back.limit)),
        ("domains", {*shares._domains.values()}, domains),
        ("hosts of domains", sum(one.hosts for one in domains), len(queues)),
        ("busy hosts", sum(one.busy for one in domains), back.in_process),
        ("workers wanted", shares._wanted, wanted),
        ("domains of which all queues are held", [], [one.name for one in stuck]),
    )
    return found + [problem for one in overflows for problem in problems(one)]


@problems.register
def _(frontier: Frontier) -> list[str]:
    parked, leases, rests = frontier.parked, frontier._leases, frontier._back.remembered
    claims = Counter(claim.name for claim in frontier._shared.claims)
    now = frontier._clock()
    found = _differing(
        ("parked", parked.size, sum(map(len, parked._fifos.values()))),
        ("parked ones to look at", parked.due, sum(parked._due.values())),
        ("parked", [], [why for why, due in parked._due.items() if due > len(parked._fifos[why])]),
        ("contacts", leases.contacts, frontier._back.in_process),
        ("leases from the future", [], [one for one in leases.entries if one.acquired_at > now]),
        ("claims", claims, Counter(frontier._shared._held)),
        ("rests beyond the limit", 0, max(0, len(rests) - rests._limit) if rests._store else 0),
    )
    parts = (frontier._front, frontier._back, *parked._fifos.values())
    return found + [problem for part in parts for problem in problems(part)]


@problems.register
def _(eliminator: Eliminator) -> list[str]:
    _wait_for_the_worker(eliminator)
    held, log = eliminator._set, eliminator._log
    wrong = []
    try:
        if not isinstance(held, BloomSet):
            wrong += wrong_runs(held._runs)
        elif held._saved:
            read_filter(filter_path(eliminator._path, held._saved))
        decided = [stretch.span for stretch in eliminator._stretches if stretch.is_decided]
        undecided = [stretch.span for stretch in eliminator._stretches if not stretch.is_decided]
        for span in [*decided, *undecided, log.span]:
            if span.end > span.start:
                for frame in read_frames(log.file(span.number), start=span.start, end=span.end):
                    if span not in decided and not all(fp in held for fp in frame.fps):
                        wrong.append(f"the set lacks one before byte {frame.end} of the log")
    except CorruptRecordError as error:
        wrong.append(str(error))
    return wrong


@problems.register
def _(content: ContentSeen) -> list[str]:
    _wait_for_the_worker(content)
    return wrong_runs(content._levels.runs)


def _wait_for_the_worker(part: Eliminator | ContentSeen) -> None:
    while part._background.busy:
        part._background.settle(wait=True)
        part._settle()


def wrong_runs(runs: Sequence[Run]) -> list[str]:
    """What is wrong with one of *runs* or between them."""
    wrong = [
        str(CorruptRecordError(run.path, block.offset, block.wrong))
        for run in runs
        for block in scan_run(run.path, count=run.count)
        if block.wrong
    ]
    return wrong or ["a fingerprint stands in two runs"] * overlap(runs)

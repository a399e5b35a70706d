"""What the done log says about the time between the last snapshot and a crash.

Called once by ``Frontier.open``. The invariant: reading the same log again gives the same result,
so a crash during or soon after a recovery needs no special care.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.frontier.delay_policy import cut_off
from webcrawl.frontier.done_log import Contact, Distrust, Finish, Record, Release, Requeue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webcrawl.frontier.clocks import Clocks
    from webcrawl.frontier.delay_policy import DelayPolicy
    from webcrawl.frontier.snapshot import FrontierSnapshot


@dataclass(slots=True)
class Replay:
    """The done log, folded.

    *contacts* are those without a release: cut off in the middle. *finished* and *notes* are
    those of finish records that may be trusted.
    """

    contacts: dict[str, Contact] = field(default_factory=dict)
    releases: dict[str, Release] = field(default_factory=dict)
    requeued: list[bytes] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)
    notes: list[bytes] = field(default_factory=list)


class Rest(NamedTuple):
    """A host, or a shared clock, rests until *ready_at*, monotonic seconds of this process."""

    host: str
    ready_at: float
    least: float


def replay(records: Iterable[Record], *, since: FrontierSnapshot) -> Replay:
    """Fold *records*, written after the snapshot *since*, onto the contacts it was made during.

    >>> from webcrawl.frontier.snapshot import FrontierSnapshot
    >>> log = [Contact("a.test", 5.0, 0.0), Release("a.test", 9.0, 3.0, 0.0), Finish(7, b"")]
    >>> folded = replay([*log, Contact("b.test", 7.0, 0.0)], since=FrontierSnapshot())
    >>> list(folded.contacts), list(folded.releases), folded.finished
    (['b.test'], ['a.test'], [7])
    """
    state = Replay()
    for queue in since.queues:
        if queue.contact:
            state.contacts[queue.host] = Contact(queue.host, queue.contact, queue.least)
    for name, at in since.shared:
        state.contacts[name] = Contact(name, at, 0.0)
    for record in records:
        match record:
            case Contact():
                state.contacts[record.host] = record
            case Release():
                state.contacts.pop(record.host, None)
                state.releases[record.host] = record
            case Finish():
                state.finished.append(record.key)
                if record.note:
                    state.notes.append(record.note)
            case Requeue():
                state.requeued.append(record.data)
            case Distrust():
                state.finished.clear()
                state.notes.clear()
    return state


def rests(
    state: FrontierSnapshot, found: Replay, *, clocks: Clocks, delay: DelayPolicy
) -> Iterator[Rest]:
    """Until when hosts must rest, in the order in which it was said: the last of a host counts.

    What the snapshot and the releases say, and for a contact that was cut off what the policy
    says of one that lasted until now: no host waits less than it would have without the restart.
    Nobody waits less than the snapshot wants it quiet.
    """
    quiet = clocks.from_wall(state.quiet[0], longest=state.quiet[1])
    for rest in _rests(state, found, clocks=clocks, delay=delay):
        yield rest._replace(ready_at=max(rest.ready_at, quiet))


def _rests(
    state: FrontierSnapshot, found: Replay, *, clocks: Clocks, delay: DelayPolicy
) -> Iterator[Rest]:
    resting = [(queue.host, queue.ready_at, queue.least) for queue in state.queues]
    for host, at, least in resting + state.remembered:
        yield Rest(host, clocks.from_wall(at, longest=at - state.saved_at), least)
    for release in found.releases.values():
        at = clocks.from_wall(release.ready_at, longest=release.rest)
        yield Rest(release.host, at, release.least)
    now, wall = clocks.clock(), clocks.wall()
    for contact in found.contacts.values():
        rest = max(cut_off(delay, max(wall - contact.at, 0.0)), contact.least)
        yield Rest(contact.host, now + rest, contact.least)

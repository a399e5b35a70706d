"""Recovery: reads the done log since the last snapshot, and lets hosts rest as it says.

Called once, when the frontier is opened (parts.py). The invariant: reading the same log again gives
the same result, so a crash during or soon after a recovery needs no special care.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from webcrawl.frontier.delay_policy import cut_off
from webcrawl.frontier.done_log import Contact, Distrust, Due, Finish, Record, Release, Requeue

if TYPE_CHECKING:
    from webcrawl.frontier.parts import FrontierParts
    from webcrawl.frontier.snapshot import FrontierCounts, FrontierSnapshot


@dataclass
class Replay:
    """Summary of the events in the done log.

    *contacts* are the contacts that were cut off, so that no release follows them; *ended* is the
    number of the others. *releases* are the last ones of each host, and *requeued* the entries that
    were pushed. *finished* are the finish records that can be trusted, *due* the entries that were
    set aside with them. *last_at* is the latest time in the log.
    """

    contacts: dict[str, Contact] = field(default_factory=dict)
    releases: dict[str, Release] = field(default_factory=dict)
    requeued: list[Requeue] = field(default_factory=list)
    finished: list[Finish] = field(default_factory=list)
    due: list[Due] = field(default_factory=list)
    ended: int = 0
    last_at: float = 0.0

    def requeues_to_apply(self, *, trust_done: bool) -> list[Requeue]:
        """Return the records of entries to push again.

        Retries are not among them unless *trust_done*, as the entry that a retry replaces is
        waiting again.
        """
        return [record for record in self.requeued if trust_done or not record.is_retry]

    def add_to(self, counts: FrontierCounts, *, trust_done: bool) -> None:
        """Add the events to *counts*, the counters of the snapshot.

        Finished and requeued entries are counted only with *trust_done*.
        """
        counts.count_contacts(self.ended)
        if trust_done:
            for record in self.finished:
                counts.count_end(record)
            counts.requeued += len(self.requeued)


def replay(records: Iterable[Record], *, since: FrontierSnapshot) -> Replay:
    """Summarize *records*, which were written after the snapshot *since*.

    Contacts that were under way when the snapshot was made are included.

    >>> from webcrawl.frontier.snapshot import FrontierSnapshot
    >>> log = [Contact("a.test", 5.0, 0.0), Release("a.test", 9.0, 0.0), Finish(7, b"")]
    >>> summary = replay([*log, Contact("b.test", 7.0, 0.0)], since=FrontierSnapshot())
    >>> list(summary.contacts), list(summary.releases), [one.key for one in summary.finished]
    (['b.test'], ['a.test'], [7])
    """
    state = Replay(last_at=since.saved_at)
    # Contacts under way are those of hosts, and of the shared clocks that they held.
    for queue in since.queues:
        if queue.contact:
            state.contacts[queue.host] = Contact(queue.host, queue.contact, queue.min_rest)
    for name, at in since.shared:
        state.contacts[name] = Contact(name, at, 0.0)

    for record in records:
        match record:
            case Contact():
                state.contacts[record.host] = record
                state.last_at = max(state.last_at, record.at)
            case Release():
                state.contacts.pop(record.host, None)
                state.releases[record.host] = record
                state.ended += record.is_contact
            case Finish():
                state.finished.append(record)
            case Requeue():
                state.requeued.append(record)
            case Due():
                state.due.append(record)
            case Distrust():  # the records before it are void, as after a power failure
                state.finished.clear()
                state.due.clear()
                state.requeued = state.requeues_to_apply(trust_done=False)
    return state


def restore_rests(parts: FrontierParts, state: FrontierSnapshot, replayed: Replay) -> list[Release]:
    """Let the hosts in *parts* rest as before the restart; return the releases to journal.

    Shared clocks rest, too. Rest periods are taken from the snapshot *state* and the releases in
    *replayed*; the last one of a host counts. After a contact that was cut off, a host rests as
    the policies say for a contact that lasted until now, and whose server may still be answering.
    Contacts before ``unlogged_until`` may be missing from the log, so all hosts also rest as if
    they had been contacted then. No host rests less than it would have without the restart, and
    none rests longer because the clock was set back while the machine was down.

    The returned releases are those of the contacts that were cut off.
    """
    now = parts.clock()
    policies = parts.policies
    unlogged_until = parts.unlogged_until
    # The clock was set back if the log has a later time than now.
    clock_set_back = max(0.0, replayed.last_at - now)
    quiet = unlogged_until + policies.unlogged_rest
    parts.back.remembered.quiet_until = quiet
    # In the order of their age: of several rests of a host, the last one counts.
    known_rests = [(queue.host, queue.ready_at, queue.min_rest) for queue in state.queues]
    known_rests += state.remembered
    known_rests += [
        (release.host, release.ready_at, release.min_rest) for release in replayed.releases.values()
    ]
    rests = {}
    for host, ready_at, min_rest in known_rests:
        # Not before the host has rested after a contact that may be missing from the log, if any.
        earliest = max(quiet, unlogged_until and unlogged_until + min_rest)
        rests[host] = (max(ready_at - clock_set_back, earliest), min_rest)

    # A contact that was cut off came after all known rests of its host.
    releases = []
    for host, at, min_rest in map(msgspec.structs.astuple, replayed.contacts.values()):
        rest = max(cut_off(policies.delay, max(now - at, 0.0)), policies.cut_off_rest, min_rest)
        releases.append(Release(host, max(now + rest, quiet), min_rest))
        rests[host] = (releases[-1].ready_at, min_rest)
    parts.back.set_rests(rests)
    return releases

"""The progress line of the log: how far this run has come, and what it waits for.

The line is at most 160 characters with the time and the name before it, which is why large numbers
are rounded, and why the numbers of hosts give way when there is something to wait for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# With fewer contacts a second for each worker little happens, and the line says why.
_LITTLE: Final = 0.1
_EXACT: Final = 100_000


class State(NamedTuple):
    """What a crawl is doing at one moment.

    *waiting* are URLs; *in_process* contacts and pages, of which *robots* are of robots.txt files
    and *slow* have had no answer for some seconds; *looking_up*, *ready* and *resting* are hosts.
    *pauses* are the reasons for which nothing is contacted, *bound_for* the seconds until the next
    host is ready if all that have URLs rest, and *awaits_seeds* says that all seeds are read first.
    """

    waiting: int
    in_process: int
    robots: int
    slow: int
    looking_up: int
    ready: int
    resting: int
    workers: int
    pauses: Sequence[str] = ()
    bound_for: float | None = None
    awaits_seeds: bool = False


class Rates(NamedTuple):
    """Pages and contacts a second since the last line."""

    pages: float
    contacts: float


def progress_line(state: State, rates: Rates, *, secs: float, pages: int, given_up: int) -> str:
    """The line without what the log puts before it. *secs*, *pages* and *given_up* URLs are those
    of this run."""
    minutes, seconds = divmod(int(secs), 60)
    return (
        f"{minutes // 60}:{minutes % 60:02}:{seconds:02} {_short(pages)} pages "
        f"({rates.pages:,.0f}/s), {_short(given_up)} given up; {_short(state.waiting)} waiting, "
        f"{state.in_process:,} in process; {next(_reasons(state, rates), _hosts(state))}"
    )


def _reasons(state: State, rates: Rates) -> Iterator[str]:
    """Why little happens, the most important reason first; none if much does."""
    if state.pauses:
        yield f"paused: {', '.join(name.replace('_', ' ') for name in state.pauses)}"
    if state.awaits_seeds:
        yield "reading all seeds first"
    if state.bound_for is not None and state.bound_for >= 1:
        yield f"politeness-bound for {state.bound_for:,.0f} s"
    elif state.bound_for is not None:
        yield f"politeness-bound: {_short(state.resting)} hosts rest"
    if rates.contacts < _LITTLE * state.workers:
        if state.looking_up > max(state.slow, state.robots):
            yield f"name servers asked for {state.looking_up:,} hosts"
        if state.slow and 2 * state.slow >= state.in_process:
            yield f"waiting for {state.slow:,} slow hosts"
    if state.robots and 2 * state.robots >= state.in_process:
        yield f"{state.robots:,} of them robots.txt"


def _hosts(state: State) -> str:
    return f"{_short(state.ready)} hosts ready, {_short(state.resting)} resting"


def _short(number: int) -> str:
    """
    >>> [_short(number) for number in (99_999, 123_456, 12_345_678)]
    ['99,999', '123k', '12.3M']
    """
    if number < _EXACT:
        return f"{number:,}"
    return f"{number // 1000}k" if number < 1_000_000 else f"{number / 1e6:,.1f}M"

"""The hostile-server suite: every kind of broken or malicious answer, and how it must end.

The kinds are in tests/data/hostile.toml. test_hostile.py runs one real crawl over all of them. Each
has a host of its own with an ordinary page beside what is hostile, which must be fetched in any
case.
"""

from typing import NamedTuple

from wire_text import table


class Kind(NamedTuple):
    """A line of the table, whose head says what the fields are.

    place: its section. acts: what its server does, in the words of `hostile_answers.scripted`.
    """

    name: str
    place: str
    outcome: str
    cut: str
    leads_to: dict
    acts: dict

    @property
    def scheme(self):
        """The scheme under which what is hostile is asked for."""
        if self.place in ("tls", "handshake"):
            return "https"
        first = self.name.partition("-")[0]
        return first if first in ("ftp", "gopher") else "http"


def _kind(name, place, *, outcome, why, cut="", leads_to=None, **acts):
    return Kind(name, place, outcome, cut, leads_to or {}, acts)


KINDS = [
    _kind(name, place, **row)
    for place, rows in table("hostile").items()
    for name, row in rows.items()
]

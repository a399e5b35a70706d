"""Sentences about commands and options that do not exist, or no longer."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Commands and options that were removed since 0.2, with what to use instead.
_REMOVED = {
    "contact-page": "use identity contact-page FILE",
    "genpipeline": "copy the module in docs/howto/write-a-module.md",
    "suffixlist": "download the public suffix list to SUFFIX_LIST_FILE",
    "frontier --check-hosts": "a crawl checks HOSTS_POLICY_FILE when it starts",
    "frontier --import": "add the list to the seeds of the crawl and start it again",
    "hive --hours": "docs/why/scale.md has the costs",
    "hive --pages": "docs/why/scale.md has the costs",
    "job --convert": "use job restore",
    "job --repair": "use job restore",
    "politeness-audit --agent": "it reads the logs of jobs and of simweb",
    "politeness-audit --delays": "use HOSTS_POLICY_FILE",
    "politeness-audit --host": "it reads the logs of jobs and of simweb",
    "simweb --truth": "a clone has the functions of tests/rigs/sites/web_truth.py",
    "urltrace --crawl": "a clone has benchmarks/crawl_graph.py",
}


def unknown_command(name: str, known: Iterable[str]) -> str:
    """Return a sentence that says that the command *name* is not one of those *known*."""
    return _sentence(f"there is no command {name}", name, name, known)


def unknown_option(name: str, known: Iterable[str], *, command: str) -> str:
    """Return a sentence that says that *name* is not one of the *known* options of *command*."""
    return _sentence(f"there is no option {name}", f"{command} {name}", name, known)


def _sentence(start: str, removed: str, name: str, known: Iterable[str]) -> str:
    """Return a sentence that begins with *start*: what to use instead of *removed* or *name*."""
    if removed in _REMOVED:
        return f"{start} any more: {_REMOVED[removed]}"
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return f"{start}; the most similar is {nearest[0]}"

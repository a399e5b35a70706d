"""Sentences about commands and options that do not exist, or no longer."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_DEPLOY = "start the drones with scrapyd, as docs/howto/several-machines.md shows"
# Commands and options that were removed since 0.3, with what to use instead.
_REMOVED = {
    "cachelab": "a clone has benchmarks/cachelab.py",
    "contact-page": "use identity contact-page FILE",
    "doctor": "use why JOBDIR",
    "genpipeline": "copy the module in docs/howto/write-a-module.md",
    "suffixlist": "download the public suffix list to SUFFIX_LIST_FILE",
    "frontier --check-hosts": "a crawl checks HOSTS_POLICY_FILE when it starts",
    "frontier --host": "use why JOBDIR HOST",
    "frontier --import": "add the list to the seeds of the crawl and start it again",
    "hive --hosts": _DEPLOY,
    "hive up": _DEPLOY,
    "report --figures": "the charts are in the report",
    "report --price-per-hour": "multiply the price by the running time in hours, and divide by the "
    "millions of pages",
    "search --host": "use site:NAME among the words",
    "search --language": "use lang:CODE among the words",
    "simweb --truth": "a clone has the functions of tests/rigs/sites/web_truth.py",
    "urltrace --crawl": "a clone has benchmarks/crawl_graph.py",
}


def unknown(kind: str, name: str, known: Iterable[str], *, command: str = "") -> str:
    """Return a sentence that says that there is no *kind* called *name*, and what to use instead.

    The *known* ones include the most similar one. An option is that of a *command*.
    """
    instead = _REMOVED.get(f"{command} {name}".strip())
    if instead is not None:
        return f"there is no {kind} {name} any more: {instead}"
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return f"there is no {kind} {name}; the most similar is {nearest[0]}"

"""Parts of the crawler, and how callgrind tells them apart; page_instructions.py uses this.

A part is a list of modules. What a frame of such a module takes belongs to its part, and so do
libraries and tools that it calls, until a module of another part is called. So the parts together
are the whole page. The table fits older checkouts, too: its names are those of folders, old names
stay beside new ones, and names that a checkout lacks do no harm.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sysconfig
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType

_SOURCE = Path(__file__).with_suffix(".c")
_PUSH, _ACQUIRE, _FINISH = "frontier: push", "frontier: acquire", "frontier: finish"
_REST = "Scrapy, event loop, other"
# Modules below webcrawl/, or functions of these: the longest name that a function begins with
# counts. "" is for tools, which belong to the part that calls them.
_PART_OF = {
    "": _REST,
    "clock": "",
    "configuration": "",
    "items": "",
    "randomness": "",
    "signals": "",
    "storage": "",
    "urls/__init__": "",
    "urls/host": "",
    "urls/link": "",
    "urls/registered_domain": "",
    "wording": "",
    "sim": "simulated servers",
    "urls/extraction": "extraction",
    "crawl/links/link_extractor": "extraction",
    "urls": "submission",
    "crawl/intake": "submission",
    "crawl/links": "submission",
    "crawl/shard": "submission",
    "seen": "eliminator",
    "frontier/admission": "gates",
    "frontier/groups": "gates",
    "hosts/budgets": "gates",
    # The frontier's other modules belong to the function of these that calls them.
    "frontier": "frontier: other",
    "frontier/entry": "",
    "frontier/frontier:Frontier.push": _PUSH,
    "frontier/frontier:Frontier.acquire": _ACQUIRE,
    "frontier/frontier:Frontier.release": _FINISH,
    "frontier/frontier:Frontier.finish": _FINISH,
    "frontier/contacts:Contacts.release": _FINISH,
    "frontier/leases:LeaseTable.finish": _FINISH,
    "scheduler": "dispatch",
    "crawl/dispatcher": "dispatch",
    "crawl/leases": "dispatch",
    "crawl/lease": "dispatch",
    "crawl/task": "dispatch",
    "hosts": "dispatch",
    "net": "HTTP",
    "crawl/lease/downloader": "HTTP",
    "crawl/lease/host_release": "completion",
    "crawl/completion": "completion",
    "crawl/lease/completion": "completion",
    "crawl/lease/page_builder": "completion",
    "crawl/task/page_reader": "completion",
    "crawl/task/page_visit": "completion",
    "crawl/task/tries": "completion",
    "hosts/politeness/walls": "completion",
    "net/walls": "completion",
    "pipelines": "completion",
    "revisit": "completion",
    "rights": "completion",
    "pipelines/warc": "WARC",
    "crawl/lease/outcome_log": "logs",
    "crawl/links/refused_log": "logs",
    "seen/url_log": "logs",
    "hosts/records": "host records",
}
# By number, as parts.c knows them: 0 is for tools, 1 is the part in which a process begins.
PARTS = ["", _REST, *sorted({*_PART_OF.values()} - {"", _REST})]


def compile_counter(directory: Path) -> ctypes.PyDLL:
    """Compile parts.c into *directory*, and load it. Needs cc, and the headers of Python and
    valgrind."""
    library = directory / "parts.so"
    include = sysconfig.get_path("include")
    command = ["cc", "-shared", "-fPIC", "-O2", "-Wl,-z,now", f"-I{include}", "-o", str(library)]
    source = _definitions() + _SOURCE.read_text(encoding="utf-8")
    subprocess.run([*command, "-xc", "-"], check=True, text=True, input=source)
    return ctypes.PyDLL(str(library))


def tell_parts_apart(counter: ctypes.PyDLL) -> None:
    """Evaluate all frames of this process by their parts from now on."""
    counter.tell_parts_apart(ctypes.py_object(number_of))


def _definitions() -> str:
    """The macros that parts.c needs: how many parts there are, the functions that enter a part
    from another one, and the table of these."""
    numbers = range(len(PARTS))
    pairs = [(outer, inner) for outer in numbers for inner in numbers if _differ(outer, inner)]
    functions = " ".join(f"ENTER({outer}, {inner})" for outer, inner in pairs)
    table = ", ".join(f"[{outer}][{inner}] = part_{outer}_{inner}" for outer, inner in pairs)
    return f"#define PARTS {len(PARTS)}\n#define FUNCTIONS {functions}\n#define TABLE {{{table}}}\n"


def _differ(outer: int, inner: int) -> bool:
    """Whether a frame of the part *inner* leaves the part *outer*."""
    stays = PARTS[inner] == "frontier: other" and PARTS[outer].startswith("frontier")
    return bool(outer and inner) and outer != inner and not stays


def number_of(code: CodeType) -> int:
    """The number of the part to which *code* belongs."""
    _, found, module = code.co_filename.rpartition("/webcrawl/")
    if not found:
        return 0
    function = f"{module.removesuffix('.py')}:{code.co_qualname}"
    return PARTS.index(_PART_OF[max(filter(function.startswith, _PART_OF), key=len)])


def instructions_by_part(profile: str) -> Counter[str]:
    """Instructions of each part in the text of a file of callgrind."""
    total = int(re.findall(r"^(?:summary|totals): (\d+)", profile, re.MULTILINE)[-1])
    counts = Counter({_REST: total})
    for outer, inner, instructions in _calls(profile):
        counts[PARTS[inner]] += instructions
        counts[PARTS[outer]] -= instructions
    return counts


def _calls(profile: str) -> list[tuple[int, int, int]]:
    """Calls from one part into another: the numbers of both, and instructions with all below."""
    calls = []
    names: dict[str, str] = {}
    pair: re.Match[str] | None = None
    lines = iter(profile.splitlines())
    for line in lines:
        # A name is written once, with a number that stands for it later.
        if line.startswith(("fn=", "cfn=")):
            key, _, rest = line.partition("=")
            number, _, name = rest.partition(" ")
            name = names.setdefault(number, name)
            if key == "fn":
                pair = re.match(r"part_(\d+)_(\d+)", name)
        elif line.startswith("calls=") and pair is not None:
            calls.append((int(pair[1]), int(pair[2]), int(next(lines).split()[1])))
    return calls

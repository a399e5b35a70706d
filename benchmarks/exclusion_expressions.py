"""EXCLUSION_FILE with 100,000 domains and many expressions: reading, longest stop, time for a URL.

python benchmarks/exclusion_expressions.py [EXPRESSIONS [ENGINE]]; ENGINE is webcrawl (RE2) or re.
"""

from __future__ import annotations

import random
import re
import resource
import sys
import tempfile
import threading
import time

from scrapy.settings import Settings

from webcrawl.hosts.politeness.exclusions import exclusion_file

SYLLABLES = [
    "ba",
    "ko",
    "mi",
    "ter",
    "lan",
    "net",
    "shop",
    "news",
    "ads",
    "trk",
    "vid",
    "pro",
    "log",
    "cal",
    "zon",
    "ex",
    "qu",
    "in",
    "for",
    "um",
    "art",
]
URLS = 10_000


def main(count: str = "10000", engine: str = "webcrawl") -> None:
    rng = random.Random(1)

    def word(least: int = 2) -> str:
        return "".join(rng.choices(SYLLABLES, k=rng.randint(least, 4)))

    kinds = [
        lambda: rf"^https?://([a-z0-9-]+\.)*{word()}[0-9]*\.(com|net|org)/",
        lambda: rf"/{word()}/{word()}[-_]?\d+",
        lambda: rf"[?&]{word()}=[a-z0-9]+{word(1)}",
        lambda: rf"/{word(1)}/.*/{word()}\.(php|aspx?)$",
    ]
    expressions = [rng.choices(kinds, (4, 3, 2, 1))[0]() for _ in range(int(count))]
    ends = ["", "/", ".html", ".php"]
    urls = [
        f"http://www.{word()}{rng.randint(0, 9)}.{rng.choice(['com', 'net', 'de'])}/"
        f"{'/'.join(word() for _ in range(rng.randint(1, 4)))}"
        f"{rng.choice([*ends, f'?{word()}={word()}&id={rng.randint(0, 99999)}'])}"
        for _ in range(URLS)
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, longest, took = time.process_time(), 0.0, 0.0
    if engine == "webcrawl":
        with tempfile.NamedTemporaryFile("w") as file:
            domains = (f"{word()}{n}.test" for n in range(100_000))
            file.write("\n".join([*domains, *(f"/{one}/" for one in expressions)]))
            file.flush()
            exclusions = exclusion_file(Settings({"EXCLUSION_FILE": file.name}))
            # As a reload does: in a thread, while this one, the event loop, wants to run.
            began, last = time.process_time(), time.perf_counter()
            reading = threading.Thread(target=exclusions.open)
            reading.start()
            while reading.is_alive():
                time.sleep(0.001)
                longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
            took = time.process_time() - began

        def find(url: str) -> bool:
            return exclusions.rules.is_excluded("", url)

    else:
        compiled = [re.compile(one) for one in expressions]

        def find(url: str) -> bool:
            return any(one.search(url) for one in compiled)

        urls = urls[:100]
        took = time.process_time() - began
    began = time.process_time()
    hits = sum(map(find, urls))
    each = (time.process_time() - began) / len(urls)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    print(
        f"{engine}, {count} expressions: read in {took:.1f} s of CPU, longest stop "
        f"{1000 * longest:.0f} ms, {memory} MB; {1e6 * each:.0f} us a URL, {hits} of {len(urls)} "
        "found"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

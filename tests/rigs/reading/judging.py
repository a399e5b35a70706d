"""The judge of what this crawler reads: by what curl, stock Scrapy and Chromium make of the bytes.

An answer counts if Chromium gets the document, or curl and Scrapy both get the same: then this
crawler must have the same body and no mark of damage. Of an answer without success only the status
counts. What differs is excused by a row of tests/data/judging.toml, or is a fault.

    PYTHONPATH=.:tests:$(printf %s: tests/rigs/*) \
        .venv/bin/python tests/rigs/reading/judging.py --seed 1 --cases 3000
"""

import argparse
import collections
import re
import time
from fnmatch import fnmatchcase
from typing import NamedTuple

import odd_answers
import readers
from odd_server import odd_server
from wire_text import table

#: Case numbers of one seed.
OF_SEED = 100_000


class Verdict(NamedTuple):
    """What the clients made of a *case*."""

    case: odd_answers.Case
    crawler: readers.Reading
    curl: readers.Reading
    scrapy: readers.Reading
    chromium: readers.Reading

    @property
    def expected(self):
        """What this crawler must read as well; None if it may fail.

        Of an answer that is not a success it has the status only.
        """
        if _is_readable(self.chromium):
            return self.chromium
        if _is_readable(self.curl) and self.curl[:2] == self.scrapy[:2] and not self.scrapy.failure:
            return self.curl
        return None

    @property
    def agrees(self):
        """Whether this crawler has what is expected."""
        wanted = self.expected
        if wanted is None:
            return True
        if not wanted.is_success:
            return self.crawler.status == wanted.status
        return self.crawler == wanted._replace(failure="")


def _is_readable(reading):
    """Whether it is a whole document, or the head of an answer that is none."""
    return reading.is_document or 300 <= reading.status <= 999


def _has_the_page(verdict):
    """Whether this crawler has the very page that the answer is about, and no mark."""
    return verdict.crawler.body == verdict.case.document and not verdict.crawler.failure


def _marks_a_part(verdict):
    """Whether this crawler has what the others have of a damaged stream, or more, and a mark."""
    crawler, wanted = verdict.crawler, verdict.expected
    return (
        wanted is not None
        and "undecodable" in crawler.failure
        and crawler.status == wanted.status
        and crawler.body.startswith(wanted.body)
        and crawler.body != verdict.case.document
    )


def _has_no_head(verdict):
    """Whether Chromium waited for the empty line until the end, and shows a page of nothing."""
    wanted = verdict.expected
    return (
        wanted is not None
        and not wanted.body
        and verdict.crawler.status == 0
        and not _EMPTY_LINE.search(b"".join(verdict.case.answer.pieces))
    )


def _discards_a_length(verdict):
    """Whether this crawler discards an answer whose length is not valid, or too large to come."""
    return _BAD_LENGTH.search(b"".join(verdict.case.answer.pieces)) is not None and (
        verdict.crawler.failure.startswith(("bad_answer", "incomplete"))
    )


def _undoes_chunks(verdict):
    """Whether another client shows chunks as they came, and this crawler cannot undo them."""
    wanted = verdict.expected
    is_raw = wanted is not None and not verdict.case.document.startswith(wanted.body[:5])
    return is_raw and verdict.crawler.failure.startswith("incomplete")


def _reads_fields_after_cr(verdict):
    """Whether Chromium, too, sees fields after CR, and fails for what they say."""
    return verdict.chromium.status == 200 and bool(verdict.chromium.failure)


_EMPTY_LINE = re.compile(rb"\n\r?\n")
_BAD_LENGTH = re.compile(rb"(?im)^content-length[ \t]*:[ \t]*(?![0-9]{1,15}[ \t]*\r?$)")
_EXCEPTIONS = table("judging")["exceptions"]


def _is_excused(verdict):
    """Whether an exception holds for *verdict*."""
    names = globals() | {"verdict": verdict, "failure": verdict.crawler.failure}
    return any(
        any(fnmatchcase(kind, row["kinds"]) for kind in verdict.case.kinds)
        and eval(row["applies"], names)
        for row in _EXCEPTIONS
    )


class Judgement(NamedTuple):
    """All verdicts of one run."""

    verdicts: list

    @property
    def faults(self):
        """The verdicts that differ without an exception."""
        return [one for one in self.verdicts if not one.agrees and not _is_excused(one)]

    def shares(self):
        """Return by family how many cases agree, and of how many in which an oracle reads."""
        counted = {family: [0, 0] for family in odd_answers.FAMILIES}
        for verdict in self.verdicts:
            if verdict.expected is not None:
                counted[verdict.case.family][0] += verdict.agrees
                counted[verdict.case.family][1] += 1
        return {family: (agree, of) for family, (agree, of) in counted.items()}

    def summary(self):
        """Lines with the share of agreement by family, and of all."""
        shares = self.shares()
        rows = [*shares.items(), ("all", tuple(map(sum, zip(*shares.values(), strict=True))))]
        for family, (agree, of) in rows:
            yield f"{family}: {agree} of {of} agree, {100 * agree / max(1, of):.1f} %"


def judge(cases):
    """Let all clients read *cases*."""
    with odd_server({case.number: case.answer for case in cases}) as server:
        urls = {case.number: server.url(case.number) for case in cases}
        crawler = readers.read_by_crawler(urls)
        curl = readers.read_by_curl(urls)
        scrapy = readers.read_by_scrapy(urls)
        chromium = readers.read_by_chromium(urls, f"http://127.0.0.1:{server.port}/")
    clients = (crawler, curl, scrapy, chromium)
    return Judgement([Verdict(case, *(by[case.number] for by in clients)) for case in cases])


def cases_of(seed, count):
    """The first *count* cases of *seed*."""
    return [odd_answers.case(seed * OF_SEED + n) for n in range(count)]


def main():
    parser = argparse.ArgumentParser(description="Compare what clients read.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=3000)
    options = parser.parse_args()
    started = time.monotonic()
    judgement = judge(cases_of(options.seed, options.cases))
    print(*judgement.summary(), sep="\n")
    faults = judgement.faults
    kinds = collections.Counter(verdict.case.kinds[0] for verdict in faults)
    print(f"{len(faults)} faults without an exception, in {time.monotonic() - started:.0f} s")
    for kind, count in kinds.most_common():
        first = next(verdict for verdict in faults if verdict.case.kinds[0] == kind)
        print(f"{count:4} {kind}, for one case {first.case.number}")


if __name__ == "__main__":
    main()

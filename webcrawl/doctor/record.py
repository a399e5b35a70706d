"""Records of diagnoses in ``logs/stats.jsonl``, which ``scrapy why`` reads.

They are lines of the form ``{"at": epoch seconds, "doctor": Record}``. Until 0.5, other lines of
that log had stats, and no ``doctor``.
"""

from __future__ import annotations

import msgspec

from webcrawl.configuration.decoding import Epoch, Seconds, json_decoder
from webcrawl.doctor.diagnosis import Diagnosis  # msgspec reads the annotations
from webcrawl.doctor.projection import Tail  # as above
from webcrawl.states import State  # as above


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State and diagnosis of a crawl's process at one moment.

    *shards* has the numbers of shards by state. *busy* is the number of workers with a request, and
    *lag* the mean delay of the event loop in the last looks, in seconds. *next_visit* is when the
    next visit is due, in epoch seconds. *tail* is the host that holds up the end. The other fields
    are those of ``CrawlActivity``; *ready* and *resting* are those from which the diagnosis is.
    """

    state: State
    diagnosis: Diagnosis
    projection: str = ""
    shards: dict[str, int] = {}
    waiting: int = 0
    in_process: int = 0
    workers: int = 0
    busy: int = 0
    ready: int = 0
    resting: int = 0
    due: int = 0
    fresh: int = 0
    next_visit: Epoch = 0.0
    lag: Seconds = 0.0
    parked: dict[str, int] = {}
    tail: Tail | None = None


class Line(msgspec.Struct, frozen=True):
    """Line of the log, written *at* epoch seconds. Until 0.5, lines with stats had no *doctor*."""

    at: Seconds
    doctor: Record | None = None


decode_line = json_decoder(Line)

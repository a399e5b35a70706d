"""Records of diagnoses in ``logs/stats.jsonl``, which ``scrapy doctor`` reads.

They are lines of the form ``{"at": epoch seconds, "doctor": Record}``. Other lines of that log have
no ``doctor``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec

from webcrawl.configuration.decoding import Seconds, json_decoder
from webcrawl.doctor.diagnosis import Diagnosis  # noqa: TC001  # msgspec reads the annotations
from webcrawl.doctor.states import State  # noqa: TC001  # as above

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webcrawl.doctor.activity import CrawlActivity

_FROM_ACTIVITY = ("waiting", "in_process", "workers", "ready", "resting", "due", "parked")


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State and diagnosis of a crawl's process at one moment.

    *shards* has the numbers of shards by state. *busy* is the number of workers with a request. The
    other fields are those of ``CrawlActivity``.
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
    parked: dict[str, int] = {}

    @classmethod
    def of(
        cls,
        activity: CrawlActivity,
        *,
        state: State,
        diagnosis: Diagnosis,
        projection: str,
        shards: Mapping[str, int],
    ) -> Self:
        """Build a record from *activity* and the other fields."""
        return cls(
            state=state,
            diagnosis=diagnosis,
            projection=projection,
            shards=dict(shards),
            busy=activity.on_wire,
            **{name: getattr(activity, name) for name in _FROM_ACTIVITY},
        )


class Line(msgspec.Struct, frozen=True):
    """Line of the log, written *at* epoch seconds; *doctor* is None in lines with stats."""

    at: Seconds
    doctor: Record | None = None


encode_line = msgspec.json.Encoder().encode
decode_line = json_decoder(Line)

"""Treatment of pages whose owner refuses the purpose of the crawl: RIGHTS_POLICY."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from scrapy.settings import BaseSettings

from webcrawl.configuration.values import choice
from webcrawl.rights.purposes import purpose_of
from webcrawl.rights.statements import Rights, Statement, refusal_in

POLICIES = ("use", "strict", "record")
USE, STRICT, RECORD = POLICIES

#: Outcome of a URL that is not fetched, or not kept, because its owner refuses the purpose.
RIGHTS_REFUSED = "rights_refused"
#: The file of the TDM Reservation Protocol, and the purposes for which it is fetched.
TDM_PATH = "/.well-known/tdmrep.json"
TDM_PURPOSES = ("train", "research")


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsPolicy:
    """The purpose of a crawl, "" for none, and one of POLICIES.

    use: refused pages are stored, and left out of datasets, the search index, feeds and deltas.
    strict: they are not fetched, or not kept if that is known only afterwards.
    record: they are treated like all others; their statements are stored.
    """

    purpose: str
    policy: str = USE

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Read CRAWL_PURPOSE and RIGHTS_POLICY. Raises FatalError."""
        policy = choice(settings, "RIGHTS_POLICY", POLICIES)
        return cls(purpose=purpose_of(settings), policy=policy)

    def rights(self, statements: tuple[Statement, ...], *, agent: str) -> Rights:
        """Return the rights that follow from *statements* about a page requested as *agent*."""
        left_out = "" if self.policy == RECORD else refusal_in(statements)
        return Rights(self.purpose, agent, statements, left_out)

"""Table of the words with which site owners allow or refuse uses of their pages.

``SOURCES`` is data: for each source, its words and the purposes that each word is about. A source
has its own way to say yes and no. Within a source, a more specific word overrides a more general
one, so words are listed from general to specific. Between sources, the stricter wins: see
``statements.Rights``. Words that are not in the table are kept in the statement and ignored.

``CRAWLERS`` are well-known crawlers by their purpose. If their group in robots.txt denies a URL,
that is a refusal for the same purpose. That it allows a URL says nothing about this crawler.

Sources and dates of the vocabularies are in docs/reference/rights.md.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

ALLOW = "allow"
REFUSE = "refuse"

#: Sources that have a table of words.
USAGE = "content-usage"
SIGNAL = "content-signal"
TDM = "tdmrep"
RSL = "rsl"
ROBOTS = "robots"
IMAGE = "robots-for-images"
#: A source that has no words: its text is a link.
LICENSE = "license"

_ALL = ("search", "agent", "train", "archive", "research")
_MODELS = ("agent", "train")
_MINING = ("train", "research")


class Source(NamedTuple):
    """The words of a source, with their purposes, and the values that mean yes and no.

    A word that has the value *no*, or that is listed with its value (``use=reference``), refuses.
    """

    yes: str | None
    no: str
    words: dict[str, tuple[str, ...]]


_DIRECTIVES = {
    "none": ("search",),
    "noindex": ("search",),
    "noarchive": ("archive",),
    "noai": _MODELS,
}
SOURCES = {
    # The labels of draft-ietf-aipref-vocab-08 and, before them, those of earlier drafts.
    USAGE: Source(
        "y",
        "n",
        {
            "all": _ALL,
            "bots": _ALL,
            "tdm": _MINING,
            "ai": _MODELS,
            "genai": ("train",),
            "train-genai": ("train",),
            "ai-output": ("agent",),
            "ai-use": ("agent",),
            "train-ai": ("train",),
            "search": ("search",),
        },
    ),
    SIGNAL: Source(
        "yes",
        "no",
        {
            "search": ("search",),
            "ai-input": ("agent",),
            "ai-train": ("train",),
            "use=immediate": ("search", "train"),
            "use=reference": ("train",),
        },
    ),
    TDM: Source("0", "1", {"tdm-reservation": _MINING}),
    # "others" stands for all uses that a licence with <permits type="usage"> does not list.
    RSL: Source(
        "permits",
        "prohibits",
        {
            "others": ("search", *_MODELS),
            "all": _ALL,
            "ai-all": _MODELS,
            "ai-index": ("agent",),
            "ai-input": ("agent",),
            "ai-train": ("train",),
            "search": ("search",),
        },
    ),
    ROBOTS: Source(None, "", _DIRECTIVES),
    IMAGE: Source(None, "", {**_DIRECTIVES, "noimageai": _MODELS}),
    LICENSE: Source(None, "", {}),
}

#: Names of crawlers in robots.txt, in lower case. The policy tokens of
#: draft-kelley-aipref-training-preference-signal are used in the same way and belong here.
CRAWLERS = {
    "search": ("googlebot", "bingbot", "duckduckbot", "oai-searchbot", "claude-searchbot"),
    "agent": ("chatgpt-user", "claude-user", "perplexity-user", "mistralai-user"),
    "train": (
        *("gptbot", "claudebot", "anthropic-ai", "ccbot", "google-extended"),
        *("applebot-extended", "meta-externalagent", "bytespider"),
    ),
    "archive": ("ia_archiver", "archive.org_bot", "arquivo-web-crawler"),
    "research": ("ai2bot", "semanticscholarbot"),
}
_SEPARATORS = re.compile(r"[,\s]+")
_EQUALS = re.compile(r"\s*=\s*")


@lru_cache(maxsize=4096)
def verdict_of(source: str, text: str, purpose: str) -> str:
    """Return what *text*, a list of words of *source*, says about *purpose*.

    Returns ALLOW, REFUSE, or "" if it says nothing. If a word is repeated, one no is enough.
    """
    rule = SOURCES.get(source)
    if rule is None:
        return ""
    stated: dict[str, str] = {}
    # Case matters in Structured Fields only (RFC 9651), whose parameters begin with ";".
    text = _EQUALS.sub("=", text if source == USAGE else text.lower())
    for item in _SEPARATORS.split(text):
        word, _, value = item.partition(";")[0].partition("=")
        stated[item] = REFUSE
        if value == rule.no:
            stated[word] = REFUSE
        elif value == rule.yes:
            stated.setdefault(word, ALLOW)

    verdict = ""
    for word, purposes in rule.words.items():
        if purpose in purposes:
            verdict = stated.get(word, verdict)
    return verdict

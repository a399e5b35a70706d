"""Tables of cases, written as text: a case a line, with bars between its cells."""

from __future__ import annotations

import re


def lines(text):
    """The lines of *text* without the white space around them."""
    return [line.strip() for line in text.strip().splitlines()]


def table(text):
    """The cells of each line; a line that begins with a bar continues the one before."""
    whole = re.sub(r"\n\s*\|", " |", text)
    rows = (re.split(r"\s\|(?=\s|$)", line) for line in lines(whole))
    return [tuple(cell.strip() for cell in row) for row in rows]


def shown(links):
    """*links* as tables have them: ``kind URL [rel] text``, a.test by paths alone."""
    parts = ((one.kind, one.url, f"[{one.rel}]" * bool(one.rel), one.text) for one in links)
    told = ", ".join(" ".join(filter(None, part)) for part in parts)
    return told.replace(" http://a.test/", " /")


def words(text):
    """The words of *text*."""
    return text.split()


def pieces(text):
    """The words of *text*, with a space for each underscore in them."""
    return [word.replace("_", " ") for word in text.split()]

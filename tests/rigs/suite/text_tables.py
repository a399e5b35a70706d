"""Tables of test cases written as text: one case per line, cells separated by bars."""

import ast
import contextlib
import re

import pytest


def lines(text):
    """Return the lines of *text* without the white space around them."""
    return [line.strip() for line in text.strip().splitlines()]


def table(text):
    """Return the cells of each line. A line that starts with a bar continues the line before."""
    whole = re.sub(r"\n\s*\|", " |", text)
    rows = (re.split(r"\s\|(?=\s|$)", line) for line in lines(whole))
    return [tuple(cell.strip() for cell in row) for row in rows]


def each(names, *values, long=(), ids=None):
    """Run a test once for each of *values*; with several *names*, split by spaces, for tuples.
    Those of *long* belong to the long tests."""
    one, *others = names.split()
    marked = (value if others else (value,) for value in long)
    values += tuple(pytest.param(*value, marks=pytest.mark.long) for value in marked)
    return pytest.mark.parametrize((one, *others) if others else one, values, ids=ids)


def cases(names, text, known=(), *, long=""):
    """Run a test once per line of *text*; the cells are its arguments *names*, split by spaces.
    Those of *long* belong to the long tests.

    A cell that is a Python literal (a number, None, quoted text, a dict) is that value. A cell that
    is a name in *known*, such as ``globals()``, is the value there. Any other cell is text. Lines
    that start with "# " are comments.
    """
    values = [
        pytest.param(*(_value(cell, known) for cell in row), marks=marks)
        for rows, marks in ((text, ()), (long, pytest.mark.long))
        for row in table(rows)
        if row != ("",) and not row[0].startswith("# ")
    ]
    return pytest.mark.parametrize(tuple(names.split()), values)


def _value(cell, known=()):
    if cell in known:
        return known[cell]
    with contextlib.suppress(ValueError, SyntaxError):
        return ast.literal_eval(cell)
    return cell


def shown(links):
    """Write *links* as the tables do: ``kind URL [rel] text``, with only the path for a.test."""
    parts = ((one.kind, one.url, f"[{one.rel}]" * bool(one.rel), one.text) for one in links)
    text = ", ".join(" ".join(filter(None, part)) for part in parts)
    return text.replace(" http://a.test/", " /")


def words(text):
    """Return the words of *text*."""
    return text.split()


def pieces(text):
    """Return the words of *text*, with a space for each underscore."""
    return [word.replace("_", " ") for word in text.split()]

"""Filters by the path and the query of a URL: traps that show in the URL, and known paths.

"What can get infinite will get infinite" (LARM). The limits are far above what pages have, so
ordinary pages are not lost. Traps that look like ordinary pages are found elsewhere. All filters
look at a single URL and take 0.1 to 0.5 µs.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from webcrawl.urls.filters.chain import UrlFilter

if TYPE_CHECKING:
    from webcrawl.urls.filters.chain import SplitUrl, UrlShape

# Repeated groups of more segments than this are not searched for.
_LONGEST_GROUP = 8
# Segments up to this length are not searched for repeated appended text: a segment that grows
# without end becomes longer.
_LONG_SEGMENT = 128
# The least number of characters before the path of a URL, as in ``http://a/``.
_SHORTEST_ORIGIN = 9


def segments_filter(most: int = 20) -> UrlFilter:
    """Return a filter that refuses paths of more than *most* segments.

    Such a space grows with each relative link (Heritrix: 20).
    """
    return UrlFilter(
        "segments", lambda url: len(url.segments) > most, lambda shape: shape.segments > most
    )


def repeated_segments_filter(most: int = 3) -> UrlFilter:
    """Return a filter of paths with repeated segments.

    It refuses paths with a segment, or a group of up to 8, more than *most* times in a row, or with
    one segment more than *most* + 1 times anywhere.

    ``/en/shop/en/shop/en/shop/en/shop/`` comes from a link without its leading slash, on a server
    that returns a page for any path (Heritrix, PathologicalPathDecideRule; Nutch, regex-urlfilter).
    Segments of digits do not count: numbers are often split into equal directories.
    """

    def refuses(url: SplitUrl) -> bool:
        segments = url.segments
        if len(segments) - len(set(segments)) < most:
            return False
        words = [segment for segment in segments if segment and not segment.isdigit()]
        return bool(words) and (max(Counter(words).values()) > most + 1 or _has_run(segments, most))

    return UrlFilter("repeated_segments", refuses, lambda shape: shape.segments > most)


def growing_segments_filter(most: int = 3) -> UrlFilter:
    """Return a filter of paths with growing segments.

    It refuses paths in which more than *most* segments in a row grow: each is the one before, with
    the end of that one appended again. It also refuses segments of more than 128 characters to
    which the same text was appended more than *most* times.

    ``/x/xx/xxx/xxxx`` and ``/page-1/page-1-1/page-1-1-1/…`` come from links made of the page's own
    address. ``/a.htmla.htmla.html…`` comes from a link that is appended to the address instead of
    replacing it. Directories by the first letters of a name, ``/d/de/deb/debian``, and segments of
    digits pass.
    """

    def refuses(url: SplitUrl) -> bool:
        segments = url.segments
        if len(segments) > most and _has_grown(segments, most):
            return True
        return len(url.text) > _LONG_SEGMENT + _SHORTEST_ORIGIN and any(
            _has_appended(part, most) or _has_appended(part.rpartition(".")[0], most)
            for part in segments
            if len(part) > _LONG_SEGMENT
        )

    return UrlFilter(
        "growing_segments", refuses, lambda shape: shape.segments > most or shape.is_long
    )


def parameters_filter(most: int = 16) -> UrlFilter:
    """Return a filter that refuses queries of more than *most* parameters.

    They come from shops that combine all their filters.
    """
    return UrlFilter("parameters", lambda url: url.query.count("&") >= most, _has_query)


_LISTING_SORT = re.compile(
    r"(?:C=[NMSD](?:(?:;|&|&amp;)O=[AD])?|[NMSD]=[AD])(?:;F=[0-2]|;V=[01]|;P=[^;&]*)*"
)


def listing_sort_filter() -> UrlFilter:
    """Return a filter that refuses other orders of a directory listing, ``/?C=M;O=A``.

    It knows those of all Apache versions and of nginx's fancy index. The listing itself passes
    (LARM, KnownPathsFilter).
    """

    def refuses(url: SplitUrl) -> bool:
        return not url.segments[-1] and _LISTING_SORT.fullmatch(url.query) is not None

    return UrlFilter("listing_sort", refuses, _has_query)


_CALENDAR = re.compile(
    r"calend[aáeo]r|calendrier|kalender|agenda|/events?\b|tribe-|[?&](?:\w*date|year|month)=",
    re.IGNORECASE,
)
# A year with a month, or a parameter with a year or a date. Four digits alone may be an article.
_DATE = re.compile(
    r"(?<![0-9])(20[0-9]{2})[-/.](?:0?[1-9]|1[0-2])(?![0-9])"
    r"|[?&](?:\w*date|year|month)=(20[0-9]{2})(?:(?:0[1-9]|1[0-2])(?:[0-3][0-9])?)?(?![0-9])",
    re.IGNORECASE,
)

# Any year from 2030 to 2099, which a crawl reaches before later ones. The check of what is before
# it comes last, so that the search can go from one "20" to the next.
_LATER = re.compile(r"20[3-9][0-9](?<![0-9]....)")


def calendar_filter(last_year: int) -> UrlFilter:
    """Return a filter that refuses calendar pages for years after *last_year*.

    "Next month" never ends. Only URLs with a calendar, events or a date parameter are checked. The
    past passes, as pages about it are ordinary. Calendars that go back for ever, or count days,
    have to be found by what comes from a host.
    """

    def refuses(url: SplitUrl) -> bool:
        if _LATER.search(url.text) is None:  # the usual case, such as a date of today
            return False
        dates = _DATE.findall(url.text)
        return (
            any(int(year or parameter) > last_year for year, parameter in dates)
            and _CALENDAR.search(url.text) is not None
        )

    return UrlFilter("calendar", refuses, lambda shape: shape.has_20)


# Names of pages for actions, as the last segment of a path, and parameters of actions.
_ACTION_PAGES = frozenset(
    {
        *("login", "login.php", "login.aspx", "login.asp", "login.html", "login.jsp", "log-in"),
        *("signin", "sign-in", "sign_in", "signup", "sign-up", "sign_up", "register"),
        *("register.php", "logout", "log-out", "logoff", "signout", "sign-out", "sign_out"),
        *("wp-login.php", "wp-signup.php", "lostpassword", "lost-password", "forgot-password"),
        *("cart", "cart.php", "cart.aspx", "basket", "basket.php"),
        *("shopping-cart", "shopping_cart"),
        *("shoppingcart", "checkout", "checkout.php", "wishlist", "add-to-cart", "addtocart"),
    }
)
_ACTION = re.compile(
    r"[&;](?:add[-_]to[-_](?:cart|wishlist|compare)=|remove_item=|replytocom=|_wpnonce="
    r"|action=(?:edit|submit|login|logout|addtocart|add_to_cart|add_product|buy_now)(?:&|\Z)"
    r"|do=(?:edit|login|register|resendpwd)(?:&|\Z))",
    re.IGNORECASE,
)


def action_filter() -> UrlFilter:
    """Return a filter of actions: logins that return, shopping carts, editing, replies to comments.

    Each page of a site links to its own of these, so they double a crawl and change things on the
    server. All of them have a query; the plain ``/login`` or ``/cart``, a single page of a site,
    passes.
    """

    def refuses(url: SplitUrl) -> bool:
        segments = url.segments
        last = segments[-1] or (segments[-2] if len(segments) > 1 else "")
        return last in _ACTION_PAGES or _ACTION.search("&" + url.query) is not None

    return UrlFilter("action", refuses, _has_query)


def segment_names_filter(names: frozenset[str]) -> UrlFilter:
    """Return a filter that refuses paths with one of *names*, in lower case, as a segment.

    Thousands of names take no longer.
    """
    return UrlFilter("segment_name", lambda url: not names.isdisjoint(url.segments))


def extension_filter(refused: frozenset[str]) -> UrlFilter:
    """Return a filter that refuses paths with one of the extensions *refused*.

    They are in lower case, without dot.
    """

    def refuses(url: SplitUrl) -> bool:
        _, dot, extension = url.segments[-1].rpartition(".")
        return bool(dot) and extension in refused

    return UrlFilter("extension", refuses)


def _has_query(shape: UrlShape) -> bool:
    return shape.has_query


def _has_grown(segments: list[str], most: int) -> bool:
    """Return whether more than *most* segments in a row grow by a copy of their end."""
    grown = 1
    before = segments[0]
    for segment in segments[1:]:
        if (
            len(segment) > len(before)
            and segment.startswith(before)
            and before.endswith(segment[len(before) :])
            and not segment.isdigit()
        ):
            grown += 1
            if grown > most:
                return True
        else:
            grown = 1
        before = segment
    return False


def _has_appended(text: str, most: int) -> bool:
    """Return whether *text* ends with a piece that is repeated *most* more times.

    The piece is not only digits or one character.
    """
    times = most + 1
    for size in range(2, len(text) // times + 1):
        piece = text[-size:]
        if (
            text.endswith(piece, 0, -size)
            and text.endswith(piece * times)
            and not piece.isdigit()
            and len(set(piece)) > 1
        ):
            return True
    return False


def _has_run(segments: list[str], most: int) -> bool:
    """Return whether a group of segments, not all numbers, comes over *most* times in a row."""
    count = len(segments)
    for size in range(1, min(_LONGEST_GROUP, count // (most + 1)) + 1):
        run = 0  # segments in a row that are equal to those *size* before them
        for at in range(size, count):
            run = run + 1 if segments[at] == segments[at - size] else 0
            if run >= size * most and any(
                part and not part.isdigit() for part in segments[at - size + 1 : at + 1]
            ):
                return True
    return False

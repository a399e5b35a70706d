"""Filters by the path and query of a URL: traps that the URL reveals, and known useless paths.

"What can get infinite will get infinite" (LARM). The limits are far above those of ordinary pages,
so that these are not lost. Traps that look like ordinary pages are found elsewhere. Every filter
checks a single URL and takes 0.1 to 0.5 µs.
"""

from __future__ import annotations

import re
from collections import Counter

from webcrawl.urls.filters.chain import SplitUrl, UrlFilter, UrlShape

# Maximum number of segments in a repeated group; longer groups are not searched for.
_LONGEST_GROUP = 8
# Segments up to this length are not searched for repeated text, because a segment that grows
# without end becomes longer.
_LONG_SEGMENT = 128
# Minimum number of characters before the path of a URL, as in ``http://a/``.
_SHORTEST_ORIGIN = 9


def segments_filter(limit: int = 20) -> UrlFilter:
    """Return a filter that refuses paths of more than *limit* segments.

    In a trap, each relative link may add segments without end. Heritrix has the same limit of 20.
    """
    return UrlFilter(
        "segments", lambda url: len(url.segments) > limit, lambda shape: shape.segments > limit
    )


def repeated_segments_filter(limit: int = 3) -> UrlFilter:
    """Return a filter that refuses paths with repeated segments.

    It refuses paths in which a segment, or a group of up to 8 segments, occurs more than *limit*
    times in a row, or a segment occurs more than *limit* + 1 times anywhere.

    ``/en/shop/en/shop/en/shop/en/shop/`` comes from a link without its leading slash, on a server
    that returns a page for any path (Heritrix, PathologicalPathDecideRule; Nutch, regex-urlfilter).
    Segments of digits do not count: numbers are often split into equal directories.
    """

    def is_refused(url: SplitUrl) -> bool:
        segments = url.segments
        if len(segments) - len(set(segments)) < limit:  # the usual case: too few repeats
            return False
        words = [segment for segment in segments if segment and not segment.isdigit()]
        return bool(words) and (
            max(Counter(words).values()) > limit + 1 or _has_run(segments, limit)
        )

    return UrlFilter("repeated_segments", is_refused, lambda shape: shape.segments > limit)


def growing_segments_filter(limit: int = 3) -> UrlFilter:
    """Return a filter that refuses paths whose segments keep growing, as in ``/x/xx/xxx/xxxx``.

    It refuses paths in which more than *limit* segments in a row grow: each is the previous one
    with the end of that one appended again. It also refuses segments of more than 128 characters to
    which the same text was appended more than *limit* times.

    ``/x/xx/xxx/xxxx`` and ``/page-1/page-1-1/page-1-1-1/…`` come from links that are made from
    the address of the page. ``/a.htmla.htmla.html…`` comes from a link that is appended to the
    address instead of replacing it. Directories named by the first letters of a name, such as
    ``/d/de/deb/debian``, and segments of digits pass.
    """

    def is_refused(url: SplitUrl) -> bool:
        segments = url.segments
        if len(segments) > limit and _has_grown(segments, limit):
            return True
        # A short URL has no long segment. A text that was appended to a file name may be followed
        # by the extension of the page.
        return len(url.text) > _LONG_SEGMENT + _SHORTEST_ORIGIN and any(
            _has_appended(segment, limit) or _has_appended(segment.rpartition(".")[0], limit)
            for segment in segments
            if len(segment) > _LONG_SEGMENT
        )

    return UrlFilter(
        "growing_segments", is_refused, lambda shape: shape.segments > limit or shape.is_long
    )


def parameters_filter(limit: int = 16) -> UrlFilter:
    """Return a filter that refuses queries of more than *limit* parameters.

    Such URLs come from shops whose pages link to all combinations of their search filters.
    """
    return UrlFilter("parameters", lambda url: url.query.count("&") >= limit, _has_query)


_LISTING_SORT = re.compile(
    r"(?:C=[NMSD](?:(?:;|&|&amp;)O=[AD])?|[NMSD]=[AD])(?:;F=[0-2]|;V=[01]|;P=[^;&]*)*"
)


def listing_sort_filter() -> UrlFilter:
    """Return a filter that refuses sorted versions of a directory listing, such as ``/?C=M;O=A``.

    It knows the parameters of all Apache versions and of nginx's fancy index. The listing itself
    passes (LARM, KnownPathsFilter).
    """

    def is_refused(url: SplitUrl) -> bool:
        return not url.segments[-1] and _LISTING_SORT.fullmatch(url.query) is not None

    return UrlFilter("listing_sort", is_refused, _has_query)


_CALENDAR = re.compile(
    r"calend[aáeo]r|calendrier|kalender|agenda|/events?\b|tribe-|[?&](?:\w*date|year|month)=",
    re.IGNORECASE,
)
# A year with a month, or a parameter with a year or a date. Four digits alone may be the number of
# an article.
_DATE = re.compile(
    r"(?<![0-9])(20[0-9]{2})[-/.](?:0?[1-9]|1[0-2])(?![0-9])"
    r"|[?&](?:\w*date|year|month)=(20[0-9]{2})(?:(?:0[1-9]|1[0-2])(?:[0-3][0-9])?)?(?![0-9])",
    re.IGNORECASE,
)

# Any year from 2030 to 2099; in an endless calendar, a crawl reaches these before later years. The
# check of the character before the year comes last, so that the search can skip from one "20" to
# the next.
_LATER = re.compile(r"20[3-9][0-9](?<![0-9]....)")


def calendar_filter(last_year: int) -> UrlFilter:
    """Return a filter that refuses calendar pages for years after *last_year*.

    "Next month" never ends. Only URLs that mention a calendar or events, or have a date parameter,
    are checked. Past years pass, because pages about them are ordinary. Calendars that go back
    forever, or count days, have to be recognized by the pages that their host returns.
    """

    def is_refused(url: SplitUrl) -> bool:
        if _LATER.search(url.text) is None:  # the usual case, such as a date of today
            return False
        # Each date has its year in the path or in a parameter; the other one is empty.
        dates = _DATE.findall(url.text)
        return (
            any(int(year or parameter) > last_year for year, parameter in dates)
            and _CALENDAR.search(url.text) is not None
        )

    return UrlFilter("calendar", is_refused, lambda shape: shape.has_20)


# Names of action pages, as the last segment of a path, and parameters of actions.
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
    """Return a filter that refuses actions: logins, shopping carts, editing, replying to comments.

    Every page of a site may link to its own version of these, such as a login that returns to that
    page. So they double a crawl, and they change data on the server. All of them have a query.
    ``/login`` or ``/cart`` without a query, which is a single page of a site, passes.
    """

    def is_refused(url: SplitUrl) -> bool:
        segments = url.segments
        last = segments[-1] or (segments[-2] if len(segments) > 1 else "")
        # The pattern expects a separator before each parameter.
        return last in _ACTION_PAGES or _ACTION.search("&" + url.query) is not None

    return UrlFilter("action", is_refused, _has_query)


def extension_filter(refused: frozenset[str]) -> UrlFilter:
    """Return a filter that refuses paths with one of the extensions *refused*.

    The extensions are in lower case and have no dot.
    """

    def is_refused(url: SplitUrl) -> bool:
        _, dot, extension = url.segments[-1].rpartition(".")
        return bool(dot) and extension in refused

    return UrlFilter("extension", is_refused)


def _has_query(shape: UrlShape) -> bool:
    """Return whether URLs of *shape* have a query."""
    return shape.has_query


def _has_grown(segments: list[str], limit: int) -> bool:
    """Return whether more than *limit* segments in a row grow by a copy of their own end."""
    growing_count = 1  # segments in a row that grow, with the one from which they grow
    previous = segments[0]
    for segment in segments[1:]:
        if (
            len(segment) > len(previous)
            and segment.startswith(previous)
            and previous.endswith(segment[len(previous) :])
            and not segment.isdigit()
        ):
            growing_count += 1
            if growing_count > limit:
                return True
        else:
            growing_count = 1
        previous = segment
    return False


def _has_appended(text: str, limit: int) -> bool:
    """Return whether *text* ends with the same text more than *limit* times in a row.

    Text that consists of digits or of a single repeated character does not count.
    """
    times = limit + 1
    for size in range(2, len(text) // times + 1):
        ending = text[-size:]
        # The first condition is rarely true, and saves the others.
        if (
            text.endswith(ending, 0, -size)
            and text.endswith(ending * times)
            and not ending.isdigit()
            and len(set(ending)) > 1
        ):
            return True
    return False


def _has_run(segments: list[str], limit: int) -> bool:
    """Return whether a group of segments occurs more than *limit* times in a row.

    A group in which all segments are numbers does not count.
    """
    count = len(segments)
    for size in range(1, min(_LONGEST_GROUP, count // (limit + 1)) + 1):
        equal_count = 0  # number of segments in a row that equal the one *size* before
        for index in range(size, count):
            equal_count = equal_count + 1 if segments[index] == segments[index - size] else 0
            # After the first group, *limit* more groups are equal to it.
            if equal_count >= size * limit and any(
                segment and not segment.isdigit()
                for segment in segments[index - size + 1 : index + 1]
            ):
                return True
    return False

"""Write a contact page for site owners, to be published at CRAWLER_CONTACT.

Writes an HTML page to FILE (default: contact.html). It says who crawls and why (WARC_OPERATOR,
WARC_DESCRIPTION), whom to write to (--mail, or CRAWLER_CONTACT if that is a mail address), how to
exclude a site, how the crawler behaves with the current settings, and how to recognize its
requests. Write it again when these settings change.

Examples:
  scrapy contact-page -s CRAWLER_CONTACT=crawler@example.org
  scrapy contact-page bot.html --mail crawler@example.org --address 192.0.2.0/24

Exit codes:
  0  the page was written
  2  unusable input
"""
# ruff: noqa: N999  # Scrapy names a command after its module

from __future__ import annotations

import html
from pathlib import Path
from string import Template

from webcrawl.commands import Group, Options, Settings, UsageError, make_command
from webcrawl.errors import FatalError

_PAGE = Path(__file__).parents[1] / "templates" / "contact-page.html.tmpl"


def _options(group: Group) -> None:
    """Add the options of this command to *group*."""
    group.add_argument(
        "--address",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="address or network from which you send requests (may be repeated)",
    )
    group.add_argument(
        "--mail",
        metavar="ADDRESS",
        help="the mail address to write to, if CRAWLER_CONTACT is the URL of this page",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Run this command and return its exit code."""
    if len(args) > 1:
        raise UsageError("give at most one file name")
    path = Path(args[0] if args else "contact.html")
    path.write_text(contact_page(settings, opts.address, opts.mail), encoding="utf-8")
    print(f"wrote {path}; publish it at the URL in CRAWLER_CONTACT")
    return 0


def contact_page(settings: Settings, addresses: list[str], mail: str | None) -> str:
    """Return the contact page as HTML.

    *addresses* are those that the crawler uses. *mail* is the mail address to write to; None takes
    it from CRAWLER_CONTACT. Raises FatalError for a wrong setting or without a mail address.
    """
    from webcrawl.configuration.values import flag, positive
    from webcrawl.hosts.politeness.delays import PolitenessLimits, profile_of
    from webcrawl.identity.names import contact_of, is_page, product_tokens, user_agent_of
    from webcrawl.net.limits import page_max_bytes

    contact = contact_of(settings)
    if not contact:
        raise FatalError("CRAWLER_CONTACT is empty: the page must say whom to contact.")
    if is_page(contact) and not mail:
        raise FatalError(
            f"CRAWLER_CONTACT is {contact}, the page itself: give a mail address with "
            "--mail ADDRESS."
        )

    profile, limits = profile_of(settings), PolitenessLimits.from_settings(settings)
    token = product_tokens(settings)[0]
    max_delay = f"{limits.crawl_delay:g} seconds"
    long_delays = {
        "skip": f"A host that asks for more than {max_delay} is not crawled.",
        "cap": f"If a host asks for more than {max_delay}, the crawler waits only {max_delay}.",
        "obey": "",
    }[limits.long_crawl_delay]
    robots, rules = "This crawl does not read robots.txt.", "It respects Retry-After."
    if flag(settings, "ROBOTSTXT_OBEY"):
        robots = (
            "The crawler follows robots.txt (RFC 9309). Add to it: "
            f"<code>User-agent: {html.escape(token)}</code>, <code>Disallow: /</code>."
        )
        hours = positive(settings, "ROBOTS_EXPIRE_SECS") / 3600
        rules = (
            f"It respects Crawl-delay in robots.txt, and Retry-After. {long_delays}</li>\n"
            f"<li>It fetches robots.txt before the first page, and again after {hours:g} hours."
        )

    facts = {
        "token": token,
        "operator": settings["WARC_OPERATOR"] or "see the contact",
        "why": settings["WARC_DESCRIPTION"] or "see the contact",
        "contact": mail or contact,
        "agent": user_agent_of(settings),
        "key": {"host": "A host", "domain": "A domain", "address": "An IP address"}[profile.key],
        "factor": f"{profile.factor:g} times the download time, " if profile.factor else "",
        "addresses": f"Ours come from {', '.join(addresses)}." if addresses else "",
        "floor": f"{profile.floor:g}",
        "size": f"{page_max_bytes(settings):,}",
    }
    escaped = {name: html.escape(str(value)) for name, value in facts.items()}
    return Template(_PAGE.read_text("utf-8")).substitute(escaped, robots=robots, rules=rules)


Command = make_command(_run, syntax="[options] [FILE]", options=_options)

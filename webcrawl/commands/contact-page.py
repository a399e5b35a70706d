"""Write the static page about the crawler that CRAWLER_CONTACT is to name.

FILE is written, or contact.html: who crawls and why (WARC_OPERATOR, WARC_DESCRIPTION), whom to
write to (--mail, or CRAWLER_CONTACT if that is a mail address), how to be excluded, how the crawler
behaves by its settings, and how to tell its requests from others. Write it again when settings
change. Exit code: 0 done, 2 unusable input.
"""
# ruff: noqa: N999  # the name of the command

from __future__ import annotations

import html
from pathlib import Path
from string import Template

from webcrawl.commands import Group, Options, Settings, UsageError, offline
from webcrawl.errors import FatalError

_PAGE = Path(__file__).parents[1] / "templates" / "contact-page.html.tmpl"


def _options(group: Group) -> None:
    group.add_argument(
        "--address",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="an address or network that the requests come from (may be repeated)",
    )
    group.add_argument(
        "--mail",
        metavar="ADDRESS",
        help="the mail address to write to, where CRAWLER_CONTACT is the URL of this page",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    if len(args) > 1:
        raise UsageError("name one file")
    path = Path(args[0] if args else "contact.html")
    path.write_text(contact_page(settings, opts.address, opts.mail), encoding="utf-8")
    print(f"wrote {path}: publish it where CRAWLER_CONTACT says")
    return 0


def contact_page(settings: Settings, addresses: list[str], mail: str | None) -> str:
    """The page in HTML; FatalError for a setting that cannot be, or without a mail address."""
    from webcrawl.configuration.identity import contact_of, is_page, user_agent_with
    from webcrawl.configuration.values import flag, positive
    from webcrawl.hosts.politeness.delays import PolitenessLimits, profile_of
    from webcrawl.hosts.robots.rules import user_agent_token
    from webcrawl.net.limits import page_max_bytes

    contact = contact_of(settings)
    if not contact:
        raise FatalError("CRAWLER_CONTACT is empty: the page must say whom to ask.")
    if is_page(contact) and not mail:
        raise FatalError(
            f"CRAWLER_CONTACT is {contact}, the page itself: say whom to write to with "
            "--mail ADDRESS."
        )
    profile, limits = profile_of(settings), PolitenessLimits.from_settings(settings)
    token = user_agent_token(settings)
    longest = f"{limits.crawl_delay:g} seconds"
    of_long = {
        "skip": f"A host that asks for more than {longest} is not crawled.",
        "cap": f"Of a longer Crawl-delay {longest} are kept.",
        "obey": "",
    }[limits.long_crawl_delay]
    robots, rules = "This crawl does not read robots.txt.", "A Retry-After is kept."
    if flag(settings, "ROBOTSTXT_OBEY"):
        robots = (
            "In robots.txt, which it obeys (RFC 9309): "
            f"<code>User-agent: {html.escape(token)}</code>, <code>Disallow: /</code>."
        )
        hours = positive(settings, "ROBOTS_EXPIRE_SECS") / 3600
        rules = (
            f"A Crawl-delay in robots.txt and a Retry-After are kept. {of_long}</li>\n"
            f"<li>robots.txt is fetched before the first page, and again after {hours:g} hours."
        )
    facts = {
        "token": token,
        "operator": settings["WARC_OPERATOR"] or "see the contact",
        "why": settings["WARC_DESCRIPTION"] or "see the contact",
        "contact": mail or contact,
        "agent": user_agent_with(settings["USER_AGENT"] or "", contact),
        "key": {"host": "A host", "domain": "A domain", "address": "An IP address"}[profile.key],
        "factor": f"{profile.factor:g} times the download's time, " if profile.factor else "",
        "addresses": f"Ours come from {', '.join(addresses)}." if addresses else "",
        "floor": f"{profile.floor:g}",
        "size": f"{page_max_bytes(settings):,}",
    }
    escaped = {name: html.escape(str(value)) for name, value in facts.items()}
    return Template(_PAGE.read_text("utf-8")).substitute(escaped, robots=robots, rules=rules)


Command = offline(_run, syntax="[options] [FILE]", options=_options)

"""Make, show and check the identity of the crawler: names, key, published files.

A crawler with a purpose (CRAWL_PURPOSE) has a name, a key and a web site that publishes the key, so
that site owners can tell who sent a request, and what for.

  init DIR            make a key, and the files to publish at CRAWLER_SIGNATURE_AGENT. With
                      --rotate, make a new key in DIR, and publish it together with the old one;
                      the other files stay, unless you give each --address again
  show                print names, purpose and key of the settings
  check               verify what others see: names, TLS, key directory, DNS of each --address
  check URL           send a signed request, and explain the answer. If it is refused, a second one
                      in the other form follows
  contact-page FILE   write only the contact page: again when settings change
  sign-directory DIR  sign the key directory again, for two days: run it daily, and reload nginx

Examples:
  scrapy identity init ~/bot -s CRAWL_PURPOSE=search -s CRAWLER_CONTACT=bot@example.org -s CRAWLER_SIGNATURE_AGENT=https://bot.example.org
  scrapy identity check
  scrapy identity check https://crawltest.com/cdn-cgi/web-bot-auth

Exit codes:
  0  done, and nothing has failed
  1  a check has failed
  2  unusable input
"""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from webcrawl.commands import AddOption, Options, Settings, UsageError, make_command, refuse_options
from webcrawl.wording import COMMAND

if TYPE_CHECKING:
    from collections.abc import Iterable

_OPTIONS = {"address", "mail", "rotate"}
_USED = {"init": _OPTIONS, "check": {"address"}, "contact-page": {"address", "mail"}}


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy identity``."""
    from webcrawl.jobs.arguments import mail, network

    add(
        "--address",
        type=network,
        action="append",
        default=[],
        metavar="ADDRESS",
        help="address or network that requests come from (may be repeated)",
    )
    add(
        "--mail",
        type=mail,
        metavar="ADDRESS",
        help="the mail address to write to, if CRAWLER_CONTACT is the URL of a page",
    )
    add("--rotate", action="store_true", help="make a new key, and keep publishing the old one")


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Make, show or check the identity of the crawler, as *args* say; return the exit code."""
    from webcrawl.jobs.arguments import output_file
    from webcrawl.jobs.identity import check, published

    use = " ".join(args[:1] + ["URL"] * (args[:1] == ["check"] and len(args) > 1))
    refuse_options(opts, use, _OPTIONS - _USED.get(use, set()))
    match args:
        case ["init", name]:
            directory = Path(name).resolve()
            key = published.write_identity(
                directory,
                settings,
                addresses=opts.address,
                mail=opts.mail,
                rotate=opts.rotate,
            )
            print(
                f"wrote {directory}, with the key {key.id}\n"
                f"set     CRAWLER_KEY_FILE={directory}/key.pem\n"
                f"include {directory}/nginx.conf in the server of CRAWLER_SIGNATURE_AGENT\n"
                f"daily   {COMMAND} identity sign-directory {quote(str(directory))} "
                f"-s CRAWLER_SIGNATURE_AGENT={settings['CRAWLER_SIGNATURE_AGENT']} "
                "&& nginx -s reload"
            )
        case ["contact-page", name]:
            path = output_file(name)
            page = published.contact_page(settings, opts.address, opts.mail)
            path.write_text(page, encoding="utf-8")
            print(f"wrote {name}; publish it at the URL in CRAWLER_CONTACT")
        case ["sign-directory", name]:
            published.sign_directory(Path(name), settings)
        case ["show"]:
            for name, value in check.shown_identity(settings).items():
                print(f"{name:>12}  {value}")
        case ["check"]:
            return _print(check.check_identity(settings, opts.address))
        case ["check", url]:
            return _print(check.check_answer(settings, url))
        case _:
            raise UsageError("use init DIR, show, check, check URL, contact-page or sign-directory")
    if args[0] in {"init", "contact-page"} and not (opts.address or opts.rotate):
        print("It names no addresses, so owners cannot verify requests: give each with --address.")
    return 0


def _print(findings: Iterable[tuple[str, str]]) -> int:
    """Print *findings*, verdicts with texts, as they come; return the exit code."""
    from webcrawl.wording import escape_controls

    failed = False
    for verdict, text in findings:
        print(f"{verdict:>12}  {escape_controls(text)}", flush=True)
        failed |= verdict == "failed"
    return int(failed)


Command = make_command(
    _run,
    _options,
    syntax="[options] init|show|check|contact-page|sign-directory [DIR, URL or FILE]",
)

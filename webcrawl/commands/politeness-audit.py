"""Judge a crawler's politeness by the simulated web's access log, or by a job's own log.

Reports, for each politeness key, the smallest gap between two contacts, the largest concurrency and
every violation. LOG is an access log of scrapy simweb, in which every line is a contact: robots.txt
and redirects count. Without LOG the contacts are those that the job has noted itself, of each URL
that was answered; the delay and the key are those of the job's settings. Logs may be compressed by
gzip; several are merged by time. HOSTS_POLICY_FILE, the job's or given with -s, says which delays
and parts of hosts were agreed on. Exit code: 0 no violation, 1 violations, 2 unusable input, or no
delay is known, so that nothing was judged.
"""
# Scrapy names a command after its module, hence the hyphen.
# ruff: noqa: N999

from __future__ import annotations

import math
from pathlib import Path

from webcrawl.commands import (
    Group,
    Options,
    Settings,
    UsageError,
    job_first,
    offline,
    print_answer,
    progress,
)
from webcrawl.errors import FatalError

_TOP = 20


def _options(group: Group) -> None:
    from webcrawl.jobs.audit.access_logs import KEYS

    add = group.add_argument
    add("--key", choices=sorted(KEYS), help="politeness key (default: the job's, or host)")
    add(
        "--delay",
        type=float,
        metavar="SECS",
        help="pause that is due after each contact (default: by the job's settings; with 0 only "
        "two contacts at once are a violation)",
    )
    add(
        "--top",
        type=int,
        default=_TOP,
        metavar="N",
        help=f"show N keys and N violations (default: {_TOP}); all are counted",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    from webcrawl.crawl.job.saved_settings import settings_of
    from webcrawl.crawl.job.suffix_lists import suffix_list_of
    from webcrawl.crawl.lease.outcome_log import INFO_LOG
    from webcrawl.hive.launch.job_directories import jobdirs_of
    from webcrawl.hosts.host_rules import HostRules
    from webcrawl.hosts.politeness.delays import profile_of
    from webcrawl.jobs.audit.access_logs import audit_logs
    from webcrawl.jobs.audit.auditor import Agreement, RequiredDelays
    from webcrawl.jobs.audit.report import as_data, as_text
    from webcrawl.jobs.inspect.info_log import log_files
    from webcrawl.urls.registered_domain import use

    logs = job_first(args, settings, paths=True)
    if logs and args[0] not in {"--", logs[0]}:
        raise UsageError("name a job or access logs, not both")
    if opts.delay is not None and not 0 <= opts.delay < math.inf:
        raise UsageError("--delay must be a number of seconds, and not negative")
    if opts.top < 0:
        raise UsageError("--top cannot be negative")
    rules = settings
    delay, key = opts.delay, opts.key or "host"
    source, of_job = "", {}
    if not logs:
        jobdir = settings["JOBDIR"]
        jobdirs = jobdirs_of(Path(jobdir))
        if of_crawl := settings_of(jobdirs[0], settings):
            rules, profile = of_crawl, profile_of(of_crawl)
            key = opts.key or profile.key
            has_floor = rules["POLITENESS_POLICY"] == settings["POLITENESS_POLICY"]
            if delay is None and has_floor and key == profile.key:
                delay = profile.floor
        files = [file for one in jobdirs for file in log_files(one / INFO_LOG)]
        logs = [str(file) for file in files if file.exists()] or [f"{jobdir}/{INFO_LOG}"]
        of_job = {"own_log_of": jobdir}
        source = (
            f"By the own log of {jobdir}: each URL that was answered, by the machine's clock: "
            "where that was set meanwhile, gaps are wrong. A server's log has robots.txt, failures "
            "and earlier tries, too.\n"
        )
    if delay is None:
        raise FatalError(
            "No delay is known, so nothing was judged: name the one that was due with --delay SECS."
        )
    if key == "domain":
        use(suffix_list_of(settings))
    host_rules = HostRules.from_settings(rules)
    host_rules.policies.open()

    def agreement(host: str) -> Agreement:
        table = host_rules.of(host)
        return Agreement(table.delay, table.owner_allows, table.parallel)

    with progress("lines") as on_progress:
        auditor, counts = audit_logs(
            logs,
            key=key,
            delays=RequiredDelays(delay, agreement),
            keep=opts.top,
            on_progress=on_progress,
        )
    print_answer(
        as_data(auditor, counts, key=key, top=opts.top) | of_job,
        lambda: source + "\n".join((*as_text(auditor, counts, key=key, top=opts.top), "")),
        as_json=opts.json,
    )
    if auditor.violations:
        return 1
    return 2 if auditor.unjudged else 0


Command = offline(_run, syntax="[options] [JOBDIR | LOG [LOG ...]]", options=_options, json=True)

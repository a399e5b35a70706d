"""Check that a crawl was polite, from an access log or from its own log.

Reports the smallest gap between two requests, the largest concurrency and all violations, for each
politeness key (host, domain or address).

LOG is an access log of "scrapy simweb", which lists all requests including robots.txt and
redirects. Logs may be compressed with gzip; several logs are merged by time. Without LOG, the job's
own log is checked, which lists each URL that was answered. Delay and key then come from the job's
settings. HOSTS_POLICY_FILE (the job's, or given with -s) says which delays apply to which hosts.

Examples:
  scrapy politeness-audit crawls/web
  scrapy politeness-audit crawls/simweb/access.log --delay 3

Exit codes:
  0  no violations
  1  violations
  2  unusable input; or no delay is known, and nothing was checked
"""
# ruff: noqa: N999  # Scrapy names a command after its module

from __future__ import annotations

from pathlib import Path

from webcrawl.commands import (
    AddOption,
    Options,
    Settings,
    UsageError,
    make_command,
    print_answer,
    progress,
    take_job,
)
from webcrawl.errors import FatalError

_TOP = 20


def _options(add: AddOption) -> None:
    """Add the options of ``scrapy politeness-audit``."""
    from webcrawl.jobs.arguments import duration, whole
    from webcrawl.jobs.audit.access_logs import KEYS

    add(
        "--key",
        choices=sorted(KEYS),
        help="apply pauses to each host, domain or address (default: as in the job's settings, "
        "else host)",
    )
    add(
        "--delay",
        type=duration,
        metavar="SECS",
        help="required pause after each request (default: as in the job's settings; with 0, only "
        "simultaneous requests are violations)",
    )
    add(
        "--top",
        type=whole(0),
        default=_TOP,
        metavar="N",
        help=f"show at most N keys and N violations (default: {_TOP}); all are counted",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    """Check logs for requests that came too early, and print them; return the exit code."""
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
    from webcrawl.urls.registered_domain import use_list

    logs = take_job(args, settings, are_paths=True)
    if logs and args[0] not in {"--", logs[0]}:
        raise UsageError("give a job or access logs, not both")

    rules = settings
    delay = opts.delay
    key = opts.key or "host"
    note = ""
    job_facts = {}
    if not logs:
        jobdir = settings["JOBDIR"]
        jobdirs = jobdirs_of(Path(jobdir))
        if saved := settings_of(jobdirs[0], settings):
            rules = saved
            profile = profile_of(saved)
            key = opts.key or profile.key
            has_same_policy = rules["POLITENESS_POLICY"] == settings["POLITENESS_POLICY"]
            if delay is None and has_same_policy and key == profile.key:
                delay = profile.floor
        files = [file for path in jobdirs for file in log_files(path / INFO_LOG)]
        logs = [str(file) for file in files if file.exists()] or [f"{jobdir}/{INFO_LOG}"]
        job_facts = {"own_log_of": jobdir}
        note = (
            f"From the log of {jobdir}, which lists each URL that was answered. Gaps are wrong if "
            "the machine's clock was set meanwhile. Only a server's log also lists robots.txt, "
            "failures and earlier tries.\n"
        )
    if delay is None:
        raise FatalError(
            "No delay is known, so nothing was checked: give the required one with --delay SECS."
        )
    if key == "domain":
        use_list(suffix_list_of(settings))

    host_rules = HostRules.from_settings(rules)
    host_rules.policies.open()

    def agreement(host: str) -> Agreement:
        table = host_rules.host_policy(host)
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
        as_data(auditor, counts, key=key, top=opts.top) | job_facts,
        note + "\n".join((*as_text(auditor, counts, key=key, top=opts.top), "")),
        as_json=opts.json,
    )
    if auditor.violations:
        return 1
    return 2 if auditor.unjudged else 0


Command = make_command(_run, _options, syntax="[options] [JOBDIR | LOG [LOG ...]]", json=True)

"""Judge a crawler's politeness by a server's access log, or by a job's own.

Reads access logs and reports, for each politeness key, the smallest gap between two contacts, the
largest concurrency and every violation. LOG is simweb's log or any in the combined format (Apache,
nginx), also with the virtual host first; - is standard input; gzip is recognized. Several logs are
merged by time. Every line is a contact: robots.txt and redirects count. Without LOG the contacts
are those that the job has noted itself, of each URL that was answered. HOSTS_POLICY_FILE, the
job's or given with -s, says which delays and parts of hosts were agreed on. Exit code: 0 no
violation, 1 violations, 2 unusable input.
"""
# Scrapy names a command after its module, hence the hyphen.
# ruff: noqa: N999

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scrapy.exceptions import UsageError

from webcrawl.commands import Group, Options, Settings, job_first, offline, print_answer, progress

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_TOP: Final = 20


def _options(group: Group) -> None:
    from webcrawl.jobs.audit.access_logs import KEYS

    add = group.add_argument
    add("--key", choices=sorted(KEYS), default="host", help="politeness key (default: host)")
    add(
        "--delay",
        type=float,
        default=0.0,
        metavar="SECS",
        help="pause that is due after each contact (default: 0; two contacts at once are a "
        "violation all the same)",
    )
    add(
        "--delays",
        type=Path,
        metavar="FILE",
        help='pauses of single hosts, a line each: "host seconds"; the larger one is due',
    )
    add(
        "--agent",
        default="",
        metavar="TOKEN",
        help="judge only requests whose User-Agent contains TOKEN; also all of FTP and Gopher, "
        "which have none",
    )
    add(
        "--host",
        default="-",
        metavar="NAME",
        help="the host of lines that do not say it (default: all of them are one host)",
    )
    add(
        "--top",
        type=int,
        default=_TOP,
        metavar="N",
        help=f"show N keys and N violations (default: {_TOP}); all are counted",
    )


def _run(args: list[str], opts: Options, settings: Settings) -> int:
    from webcrawl.crawl.job.saved_settings import as_given
    from webcrawl.crawl.job.state_directory import read_state
    from webcrawl.crawl.job.suffix_lists import suffix_list_of
    from webcrawl.crawl.lease.outcome_log import INFO_LOG
    from webcrawl.hive.launch.job_directories import jobdirs_of
    from webcrawl.hosts.host_rules import HostRules
    from webcrawl.jobs.audit.access_logs import audit_logs
    from webcrawl.jobs.audit.auditor import Agreement, RequiredDelays, read_delays
    from webcrawl.jobs.audit.report import as_data, as_text
    from webcrawl.jobs.inspect.info_log import log_files
    from webcrawl.storage.record_log import CorruptRecordError, NewerFormatError
    from webcrawl.urls.registered_domain import use

    logs = job_first(args, settings, paths=True)
    if logs and args[0] not in {"--", logs[0]}:
        raise UsageError("name a job or access logs, not both")
    if not math.isfinite(opts.delay):
        raise UsageError("--delay must be a number of seconds")
    if opts.delay < 0 or opts.top < 0:
        raise UsageError("--delay and --top cannot be negative")
    if opts.key == "domain":
        use(suffix_list_of(settings))
    delays = {} if opts.delays is None else read_delays(opts.delays)
    told, of_job, jobdir = "", {}, settings["JOBDIR"]
    rules: BaseSettings = settings
    if not logs:
        jobdirs = jobdirs_of(Path(jobdir))
        with suppress(CorruptRecordError, NewerFormatError):  # its log is readable all the same
            if own := read_state(jobdirs[0]):
                rules = as_given(settings, own.facts)
        files = [file for one in jobdirs for file in log_files(one / INFO_LOG)]
        logs = [str(file) for file in files if file.exists()]
        of_job = {"own_log_of": jobdir}
        told = (
            f"By the own log of {jobdir}: each URL that was answered, by the machine's clock: "
            "where that was set meanwhile, gaps are wrong. A server's log has robots.txt, failures "
            "and earlier tries, too.\n"
        )
    host_rules = HostRules.from_settings(rules)
    host_rules.policies.open()

    def agreement(host: str) -> Agreement:
        table = host_rules.of(host)
        return Agreement(table.delay, table.owner_allows, table.parallel)

    with progress("lines") as on_progress:
        auditor, counts = audit_logs(
            logs or [f"{jobdir}/{INFO_LOG}"],
            key=opts.key,
            delays=RequiredDelays(min_delay=opts.delay, hosts=delays, agreement=agreement),
            agent=opts.agent,
            host=opts.host.lower(),
            keep=opts.top,
            on_progress=on_progress,
        )
    print_answer(
        as_data(auditor, counts, key=opts.key, top=opts.top) | of_job,
        lambda: told + "\n".join((*as_text(auditor, counts, key=opts.key, top=opts.top), "")),
        as_json=opts.json,
    )
    if auditor.violations:
        return 1
    return 2 if auditor.unjudged else 0


Command = offline(_run, syntax="[options] [JOBDIR | LOG [LOG ...]]", options=_options, json=True)

"""Real crawls for tests: the crawler as a user runs it, against the simulated web, judged by the
simulated web's own record."""

import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import warc_checks
import warm
from access_log_reader import read_access_log
from fastwarc.warc import ArchiveIterator, WarcRecordType
from patience import LIMIT_SECS, SLOWNESS
from web_truth import allowed_urls, fetchable_urls

from webcrawl.jobs.check.whole import check_job
from webcrawl.simweb import preset, start_in_process
from webcrawl.simweb.replies import reply_to
from webcrawl.simweb.robots import SITEMAP_PATH

ROOT = Path(__file__).resolve().parents[3]
# PYTHONPATH of processes that load something of the tests.
RIGS = os.pathsep.join(map(str, sorted(ROOT.glob("tests/rigs/*/"))))
USER_AGENT = "webcrawl"
DOWNLOAD_TIMEOUT = f"{5 * SLOWNESS:g}"


def crawl_command(web, seeds, jobdir, **settings):
    """The command line a user would type, with *settings* as ``-s``."""
    options = {
        "DNS_SERVERS": web.dns,
        "JOBDIR": jobdir,
        "POLITENESS_MIN_DELAY": 0.05,
        "ALLOW_PRIVATE_ADDRESSES": 1,
        "POLITENESS_BACKOFF_SECS": 0.1,
        # The truth follows the chains of redirects to their ends.
        "REDIRECT_MAX_TIMES": 100,
        "DOWNLOAD_TIMEOUT": DOWNLOAD_TIMEOUT,
        **settings,
    }
    command = [sys.executable, "-m", "scrapy", "crawl", "web", "-a", f"seeds={seeds}"]
    for name, value in options.items():
        command += ["-s", f"{name}={value}"]
    return command


def crawl_of_urls(directory, *urls, dns="", **settings):
    """The command that crawls from *urls*, with seeds and job in *directory*."""
    seeds = directory / "seeds.txt"
    seeds.write_text("".join(f"{url}\n" for url in urls))
    return crawl_command(SimpleNamespace(dns=dns), seeds, directory / "job", **settings)


class Simulation:
    """A simulated web that serves, crawls of it as a user runs them, and its record of them. Seeds,
    job and record are in *directory*."""

    def __init__(self, web, directory):
        self.web = web
        self.job = directory / "job"
        self.log = directory / "access.log"
        self.seeds = directory / "seeds.txt"
        self.seeds.write_text("\n".join(web.world.seeds()) + "\n")

    @property
    def world(self):
        return self.web.world

    @property
    def stats(self):
        """Those of the last crawl."""
        return stats_of(self.job)

    def command(self, job=None, **settings):
        """`crawl_command` from all seeds."""
        return crawl_command(self.web, self.seeds, job or self.job, **settings)

    def crawl(self, *arguments, **settings):
        """Crawl to the end, which must be a good one; the output."""
        return finish([*self.command(**settings), *arguments], timeout=1200 * SLOWNESS)

    def start(self, **settings):
        """`start_contacting` from all seeds."""
        return start_contacting(self.command(**settings), self.log)

    def hits(self):
        """What crawlers have asked for, when the server has been stopped. Beyond HTTP there is no
        user agent."""
        self.web.stop()
        hits = access_log(self.log)
        return [one for one in hits if USER_AGENT in one.agent or not one.origin.startswith("http")]

    def judge(self, *, min_delay):
        """Stops the server. All that may be fetched was asked for, and no host was hurried; how
        often each URL was asked for."""
        hits = self.hits()
        asked = Counter(pages_asked_for(hits))
        assert set(asked) == allowed_urls(self.world, USER_AGENT)
        assert impolite(hits, min_delay=min_delay) == []
        return asked


@contextmanager
def simulated(directory, name="clean", **values):
    """The simulated web of the preset *name* with *values*."""
    world = preset(name, **{"http_port": 0, "https_port": 0, **values})
    with start_in_process(world, log_path=directory / "access.log") as web:
        yield Simulation(web, directory)


@contextmanager
def clean_web(directory, **values):
    """The same for who wants no more than the web and its seeds."""
    with simulated(directory, **values) as web:
        yield web.web, web.seeds


def run_crawl(command, *, timeout=LIMIT_SECS):
    """Run *command* to its end from the project directory."""
    return warm.run(command, stderr=subprocess.STDOUT, timeout=timeout)


def finish(command, *, code=0, timeout=LIMIT_SECS):
    """The output of *command*, which ends with *code*."""
    done = run_crawl(command, timeout=timeout)
    assert done.returncode == code, done.stdout
    return done.stdout


def printed(*words, **options):
    """What a command of Scrapy prints that ends well."""
    done = warm.scrapy(*words, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def refusal(*words, **options):
    """What a command of Scrapy says that ends with 2."""
    done = warm.scrapy(*words, **options)
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert "Traceback" not in said
    return said


def output_of(crawl, *, code=0, timeout=LIMIT_SECS):
    """What *crawl* writes to standard error until it ends with *code*."""
    output = crawl.communicate(timeout=timeout)[1]
    assert crawl.returncode == code, output
    return output


def start_crawl(command):
    """Start *command* and return when its spider has been opened: it now handles signals. What
    it has written to standard error before that is gone."""
    crawl = warm.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in crawl.stderr:
        if "Spider opened" in line:
            break
    return crawl


def lines_until(crawl, words):
    """What *crawl* writes to standard error up to the line that has *words*."""
    lines = []
    while not lines or words not in lines[-1]:
        lines.append(crawl.stderr.readline())
        assert lines[-1], lines
    return "".join(lines)


def start_contacting(command, log):
    """Start *command* and return when its first contact is in the server's *log*. A job may take
    its time to be opened after the spider."""
    began = time.time()
    crawl = start_crawl(command)
    wait_until(lambda: any(hit.start > began for hit in access_log(log)))
    return crawl


def kill(crawl):
    """``kill -9``."""
    assert crawl.poll() is None, "the crawl ended by itself"
    crawl.kill()
    crawl.communicate()


def wait_until(happened, *, secs=LIMIT_SECS, every=0.05):
    """Return when *happened* says so, asked *every* so many seconds: a crawl takes its time."""
    deadline = time.monotonic() + secs
    while not happened():
        assert time.monotonic() < deadline, f"it did not happen in {secs:.0f} s"
        time.sleep(every)


def descendants(pid):
    """The directories in /proc of the processes that *pid* has started, and that these have."""
    children = []
    with suppress(OSError):  # it has ended
        for file in Path(f"/proc/{pid}/task").glob("*/children"):
            children += file.read_text().split()
    return [one for child in children for one in (Path("/proc", child), *descendants(child))]


def wait_for_the_end_of(processes):
    """*processes* are directories in /proc. Those of zombies have no command line."""

    def has_ended(process):
        try:
            return not (process / "cmdline").read_bytes()
        except OSError:
            return True

    wait_until(lambda: all(map(has_ended, processes)))


def stats_of(jobdir):
    return json.loads((jobdir / "stats.json").read_text(encoding="utf-8"))


def url_of_hit(hit):
    """The URL a hit asked for, in the form the truth has it."""
    return f"{hit.origin}{hit.target}"


def pages_asked_for(hits):
    """All that was asked for but robots.txt, and the sitemap that some of these name, which no host
    has and no page links to."""
    return [url_of_hit(hit) for hit in hits if not is_robots(hit) and hit.target != SITEMAP_PATH]


def is_robots(hit):
    return "robots" in urlsplit(hit.target).path


def impolite(hits, *, min_delay):
    """Every pair of contacts of one host that overlap or are less than *min_delay* apart, from
    the server's record: the end of one to the beginning of the next."""
    by_host = defaultdict(list)
    for hit in hits:
        by_host[urlsplit(hit.origin).hostname or ""].append(hit)
    violations = []
    for host, contacts in by_host.items():
        contacts.sort(key=lambda hit: hit.start)
        for one, next_one in pairwise(contacts):
            gap = next_one.start - one.end
            if gap < min_delay:
                violations.append(f"{host}: {gap:.4f} s before {next_one.target}")
    return violations


def damage_in(jobdir):
    """What ``scrapy job check --warc`` finds in the job, which must have been begun; it should be
    nothing however the crawl has ended."""
    return check_job(jobdir, warc=True).damage


def warc_urls(directory):
    """The URLs of all pages that went through processing modules, from every finished WARC file."""
    return [url for url, _ in warc_pages(directory)]


def warc_kinds(directory):
    """Whether the answer of each URL is a ``response`` or a ``revisit``, robots.txt included."""
    wanted = WarcRecordType.response | WarcRecordType.revisit
    return {
        record.headers["WARC-Target-URI"]: record.headers["WARC-Type"]
        for record in _warc_records(directory, record_types=wanted)
    }


def _warc_records(directory, **options):
    for path in sorted(directory.glob("*.warc.gz")):
        with path.open("rb") as stream:
            yield from ArchiveIterator(stream, **options)


def warc_pages(directory):
    """Those and their bodies, not decoded."""
    pages = []
    for record in _warc_records(directory, auto_decode="transfer"):
        if record.record_type in (WarcRecordType.response, WarcRecordType.resource):
            pages.append((record.headers["WARC-Target-URI"], record.reader.read()))
            number = record.record_id
        elif (
            record.record_type == WarcRecordType.metadata
            and record.headers.get("WARC-Concurrent-To") == number
            and b"\r\nnotProcessed: " in record.reader.read()
        ):
            pages.pop()
    return pages


def unstored_documents(world, files):
    """Every document of *world* that a crawl should have stored in the WARC
    *files* and did not: neither under its URL nor, with the very same bytes, under another."""
    stored, contents = set(), set()
    for path in files:
        found = warc_checks.decoded_records(path)
        stored.update(warc_checks.urls_of(found))
        contents.update(one.body for one in found if one.kind in ("response", "resource"))
    missing = fetchable_urls(world, USER_AGENT) - stored
    return sorted(url for url in missing if _document(world, url) not in contents)


def _document(world, url):
    """What the simulated web has under *url*."""
    parts = urlsplit(url)
    host = world.find(parts.hostname or "")
    target = f"{parts.path}?{parts.query}".rstrip("?")
    return b"".join(reply_to(world, host, target, gzip=False).parts)


def access_log(path):
    return list(read_access_log(path))

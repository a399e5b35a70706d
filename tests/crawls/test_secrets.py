"""Credentials that a crawl is given are in none of its files, nor in what it says."""

import gzip
import json
import stat
from pathlib import Path

import warm
from crawling import run_crawl, simulated
from hive_crawl import HiveCrawl
from redis_server import RedisServer
from text_tables import cases

from webcrawl.crawl.job.jobdir import seed_of
from webcrawl.crawl.job.state_directory import read_state

MARK = "Geheim"
URL = f"me:{MARK}@127.0.0.1:1"
SETTINGS = {
    **dict.fromkeys(("FTP_PASSWORD", "HTTPAUTH_PASS", "MAIL_PASS", "AWS_SESSION_TOKEN"), MARK),
    **dict.fromkeys(("AWS_SECRET_ACCESS_KEY", "TELNETCONSOLE_PASSWORD", "MY_API_KEY"), MARK),
    "DEFAULT_REQUEST_HEADERS": json.dumps(dict.fromkeys(("Authorization", "Cookie", "Key"), MARK)),
    "FEEDS": json.dumps({f"ftp://{URL}/x-%(time)s.csv?sig={MARK}": {"format": "csv"}}),
    "REDIS_URL": f"redis://:{MARK}@127.0.0.1:1",
    "REDIS_PARAMS": json.dumps({"password": MARK}),
    "ROTATING_PROXY_LIST": f"http://{URL},{URL}",
    "LOG_LEVEL": "DEBUG",
    "HIVE_SHARDS": 2,
}


@cases(
    "settings code sentence",
    """
        {"LOG_JSON": 0} | 0 | "REDIS_URL=redis://***@127.0.0.1:1, "
        {"OUTPUT_STORE": "ftp://me:Geheim@127.0.0.1:1/x?token=Geheim"} | 2
        | OUTPUT_STORE ftp://***@127.0.0.1:1/x
        {"HIVE": "a", "REDIS_URL": "redis://:Geheim/Geheim@h"} | 2 | integer value as '***'
        {"HIVE": "a", "REDIS_URL": "", "REDIS_PARAMS": "{}"} | 0 | Overridden settings
    """,
    long="""
        {"LOG_JSON": 1} | 0 | in: ftp://***@127.0.0.1:1/x-20
    """,
)
def test_a_crawl_shows_no_credential_of_its_settings(tmp_path, settings, code, sentence):
    web = simulated(tmp_path, hosts=3, max_pages=4)
    with web as web, RedisServer(tmp_path / "redis", password=MARK) as server:
        given = {**SETTINGS, **settings}
        given["REDIS_URL"] = given["REDIS_URL"] or server.url
        done = run_crawl(web.command(**given))
        status = warm.scrapy("hive", "status", "-s", f"REDIS_URL={server.url}", "-s", "HIVE=a")
    assert (done.returncode, sentence in done.stdout) == (code, True), done.stdout
    report = warm.scrapy("report", web.job, "-o", web.job / "report.html")
    said = "".join(one.stdout + (one.stderr or "") for one in (done, status, report))
    texts = {"what was said": said.encode()}
    for path in filter(Path.is_file, web.job.rglob("*")):
        read = gzip.decompress if path.suffix == ".gz" else bytes
        texts[path.name] = read(path.read_bytes())
    assert [name for name, text in texts.items() if MARK.encode() in text] == []
    assert code or b"Authorization: (withheld)\r\n" in b"".join(texts.values())


def test_only_its_owner_can_read_the_seed_of_fingerprints(tmp_path):
    """In a job, its kept checkpoints, and a hive's job and store; also of an earlier version."""
    with (
        simulated(tmp_path, hosts=3, max_pages=5) as web,
        HiveCrawl(web, tmp_path) as hive,
    ):
        (drone,) = hive.join()
        hive.end()
        for version in ("new", "old"):
            kept = {"CHECKPOINTS_KEPT": 9, "CHECKPOINTS_KEPT_INTERVAL_SECS": 0.01}
            web.crawl(CHECKPOINT_INTERVAL_SECS=0.3, **kept)
            told = files_with({seed_of(read_state(job)) for job in (web.job, drone.job)}, tmp_path)
            names = {path.relative_to(tmp_path).parts[0] for path in told}
            assert names == {"job", "drone-0", "store"}
            assert len([path for path in told if "checkpoints" in path.parts]) > 1
            assert [path for path in told if stat.S_IMODE(path.stat().st_mode) != 0o600] == []
            if version == "new":
                for path in told:
                    path.chmod(0o644)
                hive.start_again(drone)
                hive.end()


def files_with(seeds, directory):
    words = [f"{seed}".encode() for seed in seeds] + [seed.to_bytes(8, "little") for seed in seeds]
    files = [path for path in directory.rglob("*") if path.is_file()]
    return [path for path in files if any(one in path.read_bytes() for one in words)]

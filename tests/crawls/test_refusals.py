"""Hosts that refuse crawlers, and hosts on blocklists, judged by the simulated web's own record."""

import json
import sys
from collections import Counter

from crawling import finish, is_robots, simulated

from webcrawl.crawl.lease.outcome_log import INFO_LOG
from webcrawl.simweb.host_spec import Behaviour

GUARD_NAMES = (
    *("401_with_accept_signature", "403_with_accept_signature", "402_with_price"),
    *("403", "429", "challenged"),
)


def test_refusals_are_counted_by_kind_and_signature_and_blocked_hosts_are_not_contacted(tmp_path):
    with simulated(tmp_path, "guarded", hosts=60, mean_pages=3.0, max_pages=6) as web:
        hosts = {host.name: host for host in map(web.world.host, range(60))}
        names = sorted(hosts)
        signed, blocked = set(names[:30]), set(names[::7])
        (tmp_path / "own.txt").write_text("".join(f"{name}\n" for name in blocked))
        policy = tmp_path / "hosts.toml"
        policy.write_text(
            "".join(
                f'["{name}"]\nheaders = {{ Signature = "s=:x:", Signature-Input = "s=()" }}\n'
                for name in signed
            )
        )
        policy.chmod(0o600)
        settings = {
            "BLOCKLISTS": json.dumps({"own": f"{tmp_path}/own.txt"}),
            "HOSTS_POLICY_FILE": policy,
            "POLITENESS_BACKOFF_SECS": 0.001,
        }
        web.crawl(CLOSESPIDER_ITEMCOUNT=30, **settings)
        web.crawl(**settings)
        hits = web.hits()

        expected, opened = Counter(), 0
        for hit in hits:
            host, is_signed = hosts[hit.host], hit.host in signed
            name = f"{hit.status}" if hit.status in {401, 402, 403, 429} else "none"
            if host.behaviour is Behaviour.GUARDED and not is_robots(hit):
                guard = GUARD_NAMES[host.index % len(GUARD_NAMES)]
                is_open = is_signed and "signature" in guard
                name = name if is_open else guard
                opened += is_open and hit.status == 200
            expected[f"{'signed' if is_signed else 'unsigned'}/{name}"] += 1
        stats, prefix = web.stats, "crawl/refused/"
        counted = {name: n for name, n in stats.items() if name.startswith(prefix)}
        assert counted == {f"{prefix}{name}": number for name, number in expected.items()}
        kinds = {name.partition("/")[2] for name in expected}
        assert kinds == {*GUARD_NAMES, "none"}
        assert opened > 0

        assert [hit.url for hit in hits if hit.host in blocked] == []
        lines = map(json.loads, (web.job / INFO_LOG).read_bytes().splitlines())
        urls = [one["url"] for one in lines if one["outcome"] == "excluded_own"]
        assert len(urls) == stats["crawl/outcome/excluded_own"] > 3
        assert stats["blocklists/own/rules"] == len(blocked)
        scrapy = [sys.executable, "-m", "scrapy"]
        told = finish([*scrapy, "why", web.job, urls[0]])
        assert f"excluded by  BLOCKLISTS own: {tmp_path}/own.txt of 20" in told
        finish([*scrapy, "frontier", web.job, "--retry", "excluded_own"])

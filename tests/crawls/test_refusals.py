"""Hosts that refuse crawlers, and hosts on blocklists, judged by the simulated web's own record."""

import json
import sys
from collections import Counter

from crawling import finish, is_robots, simulated

from webcrawl.crawl.lease.outcome_log import INFO_LOG
from webcrawl.simweb.host_spec import Behaviour

GUARDS = (
    *("401_with_accept_signature", "403_with_accept_signature", "402_with_price"),
    *("403", "429", "challenged"),
)
SIGNED = """["{}"]
verify = false
headers = {{ Signature = "s=:x:", Signature-Input = "s=()" }}
"""


def test_refusals_are_counted_by_kind_and_signature_and_blocked_hosts_are_left_alone(tmp_path):
    with simulated(tmp_path, "guarded", hosts=60, mean_pages=3.0, max_pages=6) as web:
        names = [web.world.host(number).name for number in range(60)]
        signed, blocked = names[:30], names[::7]
        own, policy = tmp_path / "own.txt", tmp_path / "hosts.toml"
        own.write_text("\n".join(blocked))
        policy.write_text("".join(map(SIGNED.format, signed)))
        other = tmp_path / "other.txt"
        other.write_text("nobody.test")
        lists = {"own": str(own), "other": str(other)}
        settings = {"BLOCKLISTS": json.dumps(lists), "HOSTS_POLICY_FILE": policy}
        settings["POLITENESS_BACKOFF_SECS"] = 0.001
        web.crawl(CLOSESPIDER_ITEMCOUNT=30, **settings)
        web.crawl(**settings)

        expected, opened = Counter(), 0
        for hit in web.hits():
            host, kind = web.world.find(hit.host), "signed" if hit.host in signed else "unsigned"
            name = f"{hit.status}" if hit.status in {401, 402, 403, 429} else "none"
            if host.behaviour is Behaviour.GUARDED and not is_robots(hit):
                guard = GUARDS[host.index % len(GUARDS)]
                if kind == "signed" and "signature" in guard:
                    opened += hit.status == 200
                else:
                    name = guard
            assert hit.host not in blocked
            expected[f"crawl/refused/{kind}/{name}"] += 1
        counted = {name: n for name, n in web.stats.items() if name.startswith("crawl/refused/")}
        assert counted == expected
        assert {name.rpartition("/")[2] for name in expected} == {*GUARDS, "none"}
        assert opened > 0

    lines = map(json.loads, (web.job / INFO_LOG).read_bytes().splitlines())
    urls = [one["url"] for one in lines if one["outcome"] == "excluded_own"]
    assert len(urls) == web.stats["crawl/outcome/excluded_own"] > 3
    assert web.stats["blocklists/own/rules"] == len(blocked)
    other.unlink()  # only the list that blocked a URL is read for it
    told = finish([sys.executable, "-m", "scrapy", "why", web.job, urls[0]])
    assert f"excluded by  BLOCKLISTS own: {own} of 20" in told
    own.unlink()
    opened = f"http://{names[1]}:{web.world.http_port}/"
    assert "It was fetched" in finish([sys.executable, "-m", "scrapy", "why", web.job, opened])
    finish([sys.executable, "-m", "scrapy", "report", web.job])

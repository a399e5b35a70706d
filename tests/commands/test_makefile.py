"""``make crawl``: what it installs, and its settings: a newcomer's first crawl ends soon."""

import dataclasses
import re
import shlex
import shutil
import sys

import warm
from crawling import ROOT, clean_web, finish, stats_of
from patience import SLOWNESS

from webcrawl.simweb import Faults


def given_settings():
    """The words of SIM in the Makefile."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    (words,) = re.findall(r"^SIM\s*:=(.*)$", text, re.MULTILINE)
    return shlex.split(words)


def test_mute_name_servers_do_not_hold_up_the_simulated_crawl(tmp_path):
    faults = dataclasses.replace(Faults.none(), dns_timeout=0.3)
    with clean_web(tmp_path, hosts=20, mean_pages=1.5, faults=faults) as (web, seeds):
        command = [sys.executable, "-m", "scrapy", "crawl", "web", "-a", f"seeds={seeds}"]
        command += [
            word.replace("{dns}", web.dns).replace("{gopher}", "70") for word in given_settings()
        ]
        # One look-up is enough to see how long it takes.
        command += ["-s", "FRONTIER_RETRY_TIMES=0", "-s", f"JOBDIR={tmp_path / 'job'}"]
        finish(command)
    stats = stats_of(tmp_path / "job")
    assert stats["outcome/dns_failed"] > 0
    assert stats["elapsed_time_seconds"] < 30 * SLOWNESS


def test_python_without_wheels_is_reported_and_only_locked_files_installed(tmp_path):
    for name in ("Makefile", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / "python"
    # As pip tells on its standard output what it does, unless it is to be quiet.
    pip = '#!/bin/sh\ncase "$*" in *--quiet*);; *) echo Collecting a;; esac\n'
    pip += "echo no matching distribution: $* >&2\nexit 1\n"
    python.write_text(
        "#!/bin/sh\n[ $2 = venv ] || exit 0\nmkdir -p .venv/bin\n"
        f"printf '{pip}' > .venv/bin/python\nchmod +x .venv/bin/python\n"
    )
    python.chmod(0o755)
    done = warm.run(["make", f"PYTHON={python}", "crawl"], cwd=tmp_path)
    assert done.returncode == 2
    assert "setting up .venv from requirements.txt: " in done.stderr
    assert "\nCollecting a\n" in done.stderr
    assert "--require-hashes --no-deps --only-binary :all:" in done.stderr
    assert "requirements.txt has wheels for Python 3.11 to 3.14 on Linux" in done.stderr
    assert not (tmp_path / ".venv/.run").exists()

"""A real scrapyd on a port of loopback, with a directory of its own."""

import base64
import json
import sys
import urllib.parse
import urllib.request

import psutil
import warm
from crawling import wait_until
from patience import LIMIT_SECS
from redis_server import free_port


class ScrapydServer:
    """A daemon; with *user* it asks for that name and *password*.

    *python* is that of its environment, and *project* what its jobs are of.
    """

    def __init__(
        self, directory, *, user="", password="", python=sys.executable, project="webcrawl"
    ):
        self.directory = directory
        self._project = project
        port = free_port()
        self.url = f"http://localhost:{port}/"
        #: As the file hosts.txt of docs/howto/several-machines.md has it.
        secret = f"{user}:{urllib.parse.quote(password, safe='')}@" if user else ""
        self.line = f"http://{secret}localhost:{port}"
        login = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {login}"} if user else {}
        (directory / "scrapyd.conf").write_text(
            f"[scrapyd]\nhttp_port = {port}\npoll_interval = 0.25\nmax_proc = 4\n"
            f"username = {user}\npassword = {password}\n"
        )
        with (directory / "daemon.log").open("w") as log:
            command = [python, "-m", "scrapyd"]
            self.process = warm.Popen(command, cwd=directory, stdout=log, stderr=log)

    def wait_until_up(self):
        wait_until(self._is_up, every=0.2)

    def _is_up(self):
        try:
            return self.ask("daemonstatus.json")
        except OSError:
            return False

    def ask(self, service, *fields):
        """POST *fields* as curl's -d does; GET without."""
        data = urllib.parse.urlencode(fields).encode() or None
        request = urllib.request.Request(self.url + service, data, self._headers)
        with urllib.request.urlopen(request, timeout=LIMIT_SECS) as answer:
            reply = json.load(answer)
        assert reply["status"] == "ok", reply
        return reply

    def schedule(self, job, *, web, spider="web", seeds, **settings):
        settings = {
            "DNS_SERVERS": web.dns,
            "ALLOW_PRIVATE_ADDRESSES": 1,
            "POLITENESS_MIN_DELAY": 1,
            "POLITENESS_BACKOFF_SECS": 0.1,
            **settings,
        }
        fields = [("project", self._project), ("spider", spider), ("seeds", seeds), ("jobid", job)]
        fields += [("setting", f"{name}={value}") for name, value in settings.items()]
        assert self.ask("schedule.json", *fields)["jobid"] == job

    def cancel(self, job):
        self.ask("cancel.json", ("project", self._project), ("job", job))

    def wait_for_end(self, job, *, runs=1):
        def has_ended():
            ended = self.ask(f"listjobs.json?project={self._project}")["finished"]
            return [found["id"] for found in ended].count(job) == runs

        wait_until(has_ended, every=0.2)

    def log(self, job, spider="web"):
        return (self.directory / f"logs/{self._project}/{spider}/{job}.log").read_text()

    def finished(self, job):
        """The URLs that *job* is done with, in its own JOBDIR."""
        path = self.directory / f"crawls/{job}/logs/info.jsonl"
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [json.loads(line)["url"] for line in lines]

    def stop(self):
        daemon = psutil.Process(self.process.pid)
        processes = [daemon, *daemon.children(recursive=True)]
        self.process.terminate()
        # A job that was about to end goes on without it, and one of a test that failed, too.
        _, left = psutil.wait_procs(processes, 30)
        for process in left:
            process.kill()
        self.process.wait()
        assert left == []

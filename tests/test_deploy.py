"""The files in deploy/: linters, published schemas, and what they name."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import kubernetes_validate
import pytest
import warm
import yaml
from compose_spec import PyCompose
from crawling import simulated, wait_until
from patience import LIMIT_SECS
from text_tables import cases, each

import webcrawl.settings as own_settings

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent


def findings(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


UNITS = sorted(DEPLOY.glob("*.service"))


def unit_file(unit, directory):
    """*unit* as it would be of this machine, where the crawler may lie elsewhere."""
    text = unit.read_text().replace("/srv/webcrawl/.venv/bin", str(BIN))
    (directory / unit.name).write_text(text)
    return directory / unit.name


def test_the_dockerfile_is_found_good_by_hadolint():
    assert findings(BIN / "hadolint", "--failure-threshold", "info", DEPLOY / "Dockerfile") == ""


def test_what_the_dockerfile_copies_is_there():
    copied = re.findall(
        r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE
    )
    paths = [ROOT / name for line in copied for name in line.split()]
    assert paths
    assert [path for path in paths if not path.exists()] == []


def test_the_compose_file_is_one_and_found_good_by_compose_lint():
    path = DEPLOY / "compose.yaml"
    # Other keys than the specification has are refused.
    compose = PyCompose.from_json(json.dumps(yaml.safe_load(path.read_text())))
    assert set(compose.service_names()) == {"redis", "drone-1", "drone-2"}
    assert findings(BIN / "compose-lint", "check", "-q", path) == ""


def test_the_manifests_are_those_of_the_published_schemas():
    manifests = [*yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())]
    for one in manifests:
        kubernetes_validate.validate(one, "1.37", strict=True)
    kinds = Counter(one["kind"] for one in manifests)
    assert (kinds["StatefulSet"], kinds["PodDisruptionBudget"], kinds["Secret"]) == (2, 1, 2)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifests[-1] | {"replicas": 3}, "1.37", strict=True)


def pod_of(name):
    """The pods of the StatefulSet *name*, and their only container."""
    manifests = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    [found] = [
        one for one in manifests if (one["kind"], one["metadata"]["name"]) == ("StatefulSet", name)
    ]
    pod = found["spec"]["template"]
    return pod, pod["spec"]["containers"][0]


def compose_service(name):
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"][name]


def test_drones_of_a_cluster_are_watched_and_have_their_logins_from_secrets():
    pod, drone = pod_of("drone")
    settings = dict(one.split("=", 1) for one in drone["args"] if "=" in one)
    ports = {one["name"]: one["containerPort"] for one in drone["ports"]}
    probes = {
        kind: drone[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")
    }
    assert {kind: probe["path"] for kind, probe in probes.items()} == {
        "startup": "/live",
        "liveness": "/live",
        "readiness": "/ready",
    }
    assert {str(ports[probe["port"]]) for probe in probes.values()} == {settings["METRICS_PORT"]}
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == settings["METRICS_PORT"]
    assert settings["METRICS_HOST"] == "0.0.0.0"
    assert settings["HIVE_STORE"].startswith("s3://")
    assert settings["REDIS_URL"] == "$(REDIS_URL)"
    [url] = [one["valueFrom"]["secretKeyRef"] for one in drone["env"] if one["name"] == "REDIS_URL"]
    assert url == {"name": "redis", "key": "url"}
    [spread] = pod["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == pod["metadata"]["labels"]


MIB = {"mb": 1, "gb": 1024, "Mi": 1, "Gi": 1024}


def mebibytes(text):
    return int(text[:-2]) * MIB[text[-2:]]


def test_redis_is_full_before_it_is_killed_for_its_memory():
    """A rewrite of its log may take as much again."""
    _, redis = pod_of("redis")
    bound = redis["command"][redis["command"].index("--maxmemory") + 1]
    assert 2 * mebibytes(bound) < mebibytes(redis["resources"]["limits"]["memory"])
    assert f" --maxmemory {bound} " in compose_service("redis")["command"]


@cases(
    "answer is_ready",
    """
        PONG                                           | True
        NOAUTH Authentication required.                | False
        LOADING Redis is loading the dataset in memory | False
        ""                                             | False
    """,
)
def test_redis_is_ready_when_it_answers_to_this_login(tmp_path, monkeypatch, answer, is_ready):
    # As redis-cli, which ends with 0 whatever the answer is.
    (tmp_path / "redis-cli").write_text(f"#!/bin/sh\n[ $1 = ping ] && echo '{answer}'\n")
    (tmp_path / "redis-cli").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    kind, command = compose_service("redis")["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    _, redis = pod_of("redis")
    for probe in (["sh", "-c", command], redis["readinessProbe"]["exec"]["command"]):
        assert (subprocess.run(probe, check=False).returncode == 0) == is_ready


@each("unit", *UNITS, ids=lambda path: path.name)
def test_a_unit_is_found_good_by_systemdlint(unit, tmp_path):
    unit = unit_file(unit, tmp_path)
    # The machine may have no systemd, and no `strings`, which it would ask for the version (252).
    options = ("--nodropins", "--norootfs", "--sversion=2.52")
    found = findings(BIN / "systemdlint", *options, unit)
    # It wants Delegate, which is for services that manage control groups, and homes that cannot be
    # read, where seeds may be.
    wanted = ("Security.Delegate", "Security.ProtectHomeOff")
    assert [line for line in found.splitlines() if not any(one in line for one in wanted)] == []
    if shutil.which("systemd-analyze"):
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", unit],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stderr, done.returncode) == ("", 0)


def test_a_crawl_of_the_unit_takes_commands_from_outside_its_private_tmp(tmp_path):
    """It is started as systemd would: with a /tmp of its own, and the runtime directory."""
    found = re.findall(r"^(\w+)=(.*)$", (DEPLOY / "webcrawl@.service").read_text(), re.MULTILINE)
    unit = {name: value.replace("%i", "a") for name, value in found}
    assert unit["PrivateTmp"] == "yes"
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as run,  # paths of sockets must be short
        simulated(tmp_path, hosts=3, max_pages=50) as web,
    ):
        runtime = Path(run, unit["RuntimeDirectory"])
        runtime.mkdir(mode=int(unit["RuntimeDirectoryMode"], 8))
        private, theirs = Path(run, "tmp"), Path(run, "else")
        private.mkdir()
        theirs.mkdir()
        env = {name: one for name, one in os.environ.items() if name != "XDG_RUNTIME_DIR"}
        name, _, value = unit["Environment"].partition("=")
        own = {name: value.replace("%t", run), "TMPDIR": str(private)}
        command = web.command(POLITENESS_MIN_DELAY=1)
        # Not a warm process, which knows its TMPDIR already.
        crawl = subprocess.Popen(command, cwd=ROOT, env=env | own, stderr=subprocess.DEVNULL)
        try:
            wait_until((web.job / "control").exists)
            private.rename(private.with_name("unseen"))
            done = warm.scrapy("control", web.job, "stop", env=env | {"TMPDIR": str(theirs)})
            assert (done.returncode, crawl.wait(LIMIT_SECS)) == (0, 0), done.stderr
        finally:
            crawl.kill()
            crawl.wait()
        assert [*runtime.iterdir()] == []


@pytest.mark.long
@each(
    "words", "check config prometheus.yml", "check rules alerts.yml", "test rules alerts_test.yml"
)
def test_the_files_for_prometheus_are_found_good_by_promtool(words, monkeypatch):
    monkeypatch.chdir(DEPLOY)
    assert findings("promtool", *words.split()) == ""


@each("path", *sorted(DEPLOY.iterdir()), ids=lambda path: path.name)
def test_settings_in_files_of_deployment_are_settings(path):
    named = set(re.findall(r"-s\s+(?:- )?([A-Z_]+)=", path.read_text()))
    assert named <= vars(own_settings).keys() | own_settings.web_spider.keys()

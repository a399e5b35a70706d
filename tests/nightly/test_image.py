"""The container image, built by its Dockerfile in clean Debian systems, without a registry.

Each FROM is a copy of a clean Debian (debootstrap); RUN is run in it with chroot. What the image
runs is run as a container with a read-only root would run it, as the user that the file names.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from crawling import ROOT, damage_in

import webcrawl

SUITE = "trixie"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
NEEDS = "This test makes root directories: run it as root, with debootstrap installed"
# Mounts are gone when the command has ended.
ISOLATED = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
IN_ROOT = """
set -e
mount --bind {root} {root}
mount --bind /dev {root}/dev
mount -t proc proc {root}/proc
{mounts}
exec chroot {user} {root} /usr/bin/env -i {variables} sh -c {command}
"""


class Image:
    """What instructions of a Dockerfile have made, in *root*."""

    def __init__(self, root):
        self.root = root
        self.variables = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        self.workdir = "/"
        self.user = "0"
        self.volumes = []
        self.entrypoint = []

    def run(self, command, *, mounts="", user="", **variables):
        """Run *command* in it with a shell; its output."""
        there = shlex.quote(f"cd {self.workdir} && {command}")
        values = {**self.variables, **variables}
        words = shlex.join(f"{name}={value}" for name, value in values.items())
        who = f"--userspec={user}:{user}" if user else ""
        script = IN_ROOT.format(
            root=self.root, mounts=mounts, user=who, variables=words, command=there
        )
        done = subprocess.run(
            [*ISOLATED, "sh", "-c", script], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self, *words, volume):
        """Run the entry point with *words* as a container would, with *volume* at its first one."""
        os.chown(volume, int(self.user), int(self.user))
        mounts = (
            f"mount --bind {volume} {self.root}{self.volumes[0]}\n"
            f"mount -t tmpfs tmpfs {self.root}/tmp\n"
            f"mount -o remount,bind,ro {self.root}"
        )
        command = shlex.join([*self.entrypoint, *words])
        return self.run(command, mounts=mounts, user=self.user, HOME="/")


def instructions():
    """The instructions of the Dockerfile, as pairs of a name and the rest of the line."""
    text = re.sub(r"(?m)^#.*\n", "", (ROOT / "deploy/Dockerfile").read_text())
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            name, rest = line.split(maxsplit=1)
            yield name, rest


def build(debian, directory):
    """Follow the instructions, from copies of *debian* in *directory*; the last image."""
    stages = {}
    for name, rest in instructions():
        if name == "FROM":
            image = Image(directory / f"stage{len(stages)}")
            subprocess.run(["cp", "-a", debian, image.root], check=True)
            stages[rest.partition(" AS ")[2] or "last"] = image
        elif name == "RUN":
            image.run(rest, PIP_CERT=CERTIFICATES)
        elif name == "COPY":
            *sources, target = rest.split()
            origin = ROOT
            if sources[0].startswith("--from="):
                origin = stages[sources.pop(0).partition("=")[2]].root
            copy(origin, sources, image, target)
        elif name == "ENV":
            variable, _, value = rest.partition("=")
            image.variables[variable] = value.replace("$PATH", image.variables["PATH"])
        elif name == "WORKDIR":
            image.workdir = rest
            (image.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif name == "USER":
            image.user = rest
        elif name == "VOLUME":
            image.volumes = json.loads(rest)
        elif name == "ENTRYPOINT":
            image.entrypoint = json.loads(rest)
        else:
            assert name in {"ARG", "STOPSIGNAL", "CMD"}
    return image


def copy(origin, sources, image, target):
    """As COPY does: of a directory its contents."""
    place = image.root / Path(image.workdir, target).relative_to("/")
    if target.endswith("/"):
        place.mkdir(parents=True, exist_ok=True)
    for source in sources:
        path = origin / source.strip("/")
        if path.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(path, place, symlinks=True, dirs_exist_ok=True, ignore=ignored)
        else:
            shutil.copy(path, place)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    assert os.geteuid() == 0, NEEDS
    assert shutil.which("debootstrap"), NEEDS
    directory = tmp_path_factory.mktemp("image")
    directory.chmod(0o755)
    debian = directory / "debian"
    packages = "--include=python3,python3-venv,ca-certificates"
    subprocess.run(
        ["debootstrap", "--variant=minbase", packages, SUITE, debian],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    for path in (Path("/etc/resolv.conf"), Path("/etc/hosts"), CERTIFICATES):
        shutil.copy(path, debian / path.relative_to("/"))
    try:
        yield build(debian, directory)
    finally:
        shutil.rmtree(directory)


@pytest.mark.long
def test_the_image_crawls_with_a_root_that_cannot_be_written(image, tmp_path):
    tmp_path.chmod(0o755)
    volume = tmp_path / "volume"
    volume.mkdir()
    said = image.start(
        *("simweb", "--hosts", "20", "--seeds-file", "seeds.txt", "--"),
        *("webcrawl", "crawl", "web", "-a", "seeds={seeds}", "-s", "JOBDIR=/srv/crawl/web"),
        *("-s", "DNS_SERVERS={dns}", "-s", "ALLOW_PRIVATE_ADDRESSES=1"),
        *("-s", "POLITENESS_MIN_DELAY=0.05", "-s", "REPUTATION_ROUNDS=0"),
        volume=volume,
    )
    assert "=== crawl summary ===" in said
    assert "end  finished" in said
    assert damage_in(volume / "web") == []
    assert (volume / "web").stat().st_uid == int(image.user) > 0


@pytest.mark.long
def test_the_image_has_the_packages_of_the_lock_and_no_others(image):
    pattern = re.compile(r"(?m)^([\w.-]+)==([^\s;]+)")
    found, pinned = (
        {re.sub("[-_.]+", "-", name.lower()): version for name, version in pattern.findall(text)}
        for text in (image.run("pip freeze"), (ROOT / "requirements.txt").read_text())
    )
    assert len(found) > 30
    assert found.items() <= pinned.items()
    assert f"webcrawl-{webcrawl.__version__}-py3" in image.run("pip freeze")


def test_compose_and_kubernetes_call_a_command_of_webcrawl():
    """Both name arguments only, for the entry point of the image."""
    found = dict(instructions())
    assert json.loads(found["ENTRYPOINT"]) == ["webcrawl"]
    services = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())["services"]
    manifests = yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text())
    containers = [
        one["spec"]["template"]["spec"]["containers"][0]
        for one in manifests
        if one["kind"] == "StatefulSet"
    ]
    arguments = [one["command"].split() for name, one in services.items() if name != "redis"]
    arguments += [one["args"] for one in containers if one["image"].startswith("webcrawl")]
    assert [words[:2] for words in arguments] == [["crawl", "web"]] * 3
    assert all("command" not in one for one in containers if "args" in one)

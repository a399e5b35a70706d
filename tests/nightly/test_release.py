"""A release: wheel and source archive, tried as a user has them; tags of the earlier ones."""

import re
import subprocess

import pytest
from crawling import ROOT

RELEASES = dict(
    line.split()
    for line in (ROOT / "docs/releases.txt").read_text().splitlines()
    if not line.startswith("#")
)


def test_each_release_of_the_changelog_has_its_commit():
    dated = re.findall(r"^## ([\d.]+) \(", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert [*RELEASES] == dated[::-1]


@pytest.mark.long
def test_the_wheel_crawls_in_an_empty_environment(tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    done = subprocess.run(
        ["make", "release"], cwd=clone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len([*clone.glob("dist/webcrawl-*")]) == 2


@pytest.mark.long
def test_tags_lead_to_the_commits_of_the_releases(tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    subprocess.run(["make", "tags"], cwd=clone, check=True)
    for version, commit in RELEASES.items():
        file = ["git", "show", f"v{version}:webcrawl/__init__.py"]
        text = subprocess.run(file, cwd=clone, capture_output=True, text=True, check=True).stdout
        found = subprocess.run(
            ["git", "rev-parse", f"v{version}"],
            cwd=clone,
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.strip() == commit
        assert version == "0.1" or f'__version__ = "{version}"' in text

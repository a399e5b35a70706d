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


def output_of(*command, cwd):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def clone(tmp_path):
    output_of("git", "clone", "--quiet", ROOT, tmp_path / "clone", cwd=tmp_path)
    return tmp_path / "clone"


@pytest.mark.long
def test_the_wheel_crawls_in_an_empty_environment(clone):
    output_of("make", "release", cwd=clone)
    assert len([*clone.glob("dist/webcrawl-*")]) == 2


@pytest.mark.long
def test_tags_lead_to_the_commits_of_the_releases(clone):
    output_of("make", "tags", cwd=clone)
    for version, commit in RELEASES.items():
        assert output_of("git", "rev-parse", f"v{version}", cwd=clone).strip() == commit
        # 0.1 was numbered afterwards.
        text = output_of("git", "show", f"v{version}:webcrawl/__init__.py", cwd=clone)
        assert version == "0.1" or f'__version__ = "{version}"' in text

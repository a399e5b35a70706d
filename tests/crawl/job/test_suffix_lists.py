"""The public suffix list of new crawls, and the one that a job keeps."""

import pytest
from scrapy.settings import Settings

from webcrawl.crawl.job.jobdir import Job, read_checkpoint
from webcrawl.crawl.job.suffix_lists import open_suffix_list, suffix_list_of, use_suffix_list_of
from webcrawl.errors import FatalError
from webcrawl.urls import registered_domain as module
from webcrawl.urls.registered_domain import SuffixList, registered_domain, use_list

SMALL = """// VERSION: {version}
// ===BEGIN ICANN DOMAINS===
com
{extra}
// ===END ICANN DOMAINS===
// ===BEGIN PRIVATE DOMAINS===
github.io
// ===END PRIVATE DOMAINS===
"""
OLD = SMALL.format(version="old", extra="uk")
NEW = SMALL.format(version="new", extra="co.uk")


@pytest.fixture(autouse=True)
def _list_of_the_package():
    before = module.current_list()
    yield
    use_list(before)


def test_bad_file_of_the_user_is_one_sentence(tmp_path):
    file = tmp_path / "list.dat"
    settings = Settings({"SUFFIX_LIST_FILE": str(file)}, priority="cmdline")
    with pytest.raises(FatalError, match="cannot be read"):
        suffix_list_of(settings)
    file.write_text("<html>")
    with pytest.raises(FatalError, match="is not a public suffix list, or is incomplete: download"):
        suffix_list_of(settings)
    file.write_text(NEW)
    assert suffix_list_of(settings).version == "new"


def test_missing_file_of_the_project_is_the_list_of_the_package(tmp_path):
    settings = Settings({"SUFFIX_LIST_FILE": str(tmp_path / "none")}, priority="project")
    assert suffix_list_of(settings).below("www.bbc.co.uk", private=False) == "bbc.co.uk"


def test_job_keeps_the_list_that_it_began_with(tmp_path, caplog):
    path = tmp_path / "job"

    def domain_under(present):
        job = Job(path=path)
        job.open()
        open_suffix_list(job, SuffixList(present))
        job.publish(job.prepare({}))
        job.close()
        return registered_domain("a.b.co.uk")

    assert domain_under(OLD) == "co.uk"
    caplog.set_level("INFO")
    assert domain_under(NEW) == "co.uk"
    assert "keeps the public suffix list that it started with (old)" in caplog.text

    use_list(SuffixList(NEW))
    assert registered_domain("a.b.co.uk") == "b.co.uk"
    use_suffix_list_of(read_checkpoint(path).own)
    assert registered_domain("a.b.co.uk") == "co.uk"

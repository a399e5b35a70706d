"""Ctrl-C while a command is still importing: a sentence, not a traceback."""

import subprocess
import sys

import pytest
import warm
from crawling import ROOT
from text_tables import cases, each

SENTENCE = "Stopped by Ctrl-C. Run the same command again to continue.\n"
#: Press Ctrl-C at the Nth import after that of the project's settings, in a command of Scrapy.
INTERRUPTED = """
import os, signal, sys
left, *words = sys.argv[1:]
left = int(left)
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if the tests are a shell's job
class Finder:
    def find_spec(self, name, path=None, target=None):
        global left
        if "webcrawl.settings" in sys.modules:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from scrapy.cmdline import execute
execute(["scrapy", *words])
"""
SET_NAME = """
import webcrawl.settings
class Field:
    def __set_name__(self, *_):
        raise KeyboardInterrupt
class Owner:
    field = Field()
"""


def started(*words):
    """A process of its own: the others of the tests have imported everything."""
    command = [sys.executable, "-c", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.cures("Stopped by Ctrl-C. Run the same command again to continue.")
@each("imports", 60, long=(5, 200))
@cases(
    "words",
    """
        crawl web -a seeds=http://127.0.0.1:9/ -s JOBDIR={dir}/job
        why {dir} http://a.test/
    """,
    long="""
        control {dir} state
        purge {dir} --host a.test
    """,
)
def test_ctrl_c_while_a_command_imports_is_a_sentence(tmp_path, words, imports):
    run = started(INTERRUPTED, str(imports), *words.format(dir=tmp_path).split())
    assert (run.returncode, run.stdout) == (-2, "")
    assert run.stderr.splitlines(keepends=True)[-1] == SENTENCE
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "job").exists()
    again = warm.scrapy(*words.format(dir=tmp_path).split()).stderr
    assert again
    assert SENTENCE not in again


def test_ctrl_c_is_a_sentence_as_a_cause_too_and_other_errors_keep_their_traceback():
    assert started(SET_NAME).stderr == SENTENCE
    assert started("import webcrawl.settings; 1/0").stderr.startswith("Traceback ")

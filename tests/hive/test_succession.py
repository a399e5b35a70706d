"""Whose leases the process on a job directory takes over."""

from __future__ import annotations

import shutil

from webcrawl.hive.succession import Successor


def test_the_next_process_on_a_directory_succeeds_the_last_one_in_the_same_boot(tmp_path):
    job = tmp_path / "job"
    job.mkdir()
    first, second = Successor.of(job, "first"), Successor.of(job, "second")
    assert first.former(job) == ""
    first.write(job)
    assert second.former(job) == "first"
    assert Successor("second", "another boot", first.inode).former(job) == ""
    assert Successor("second", "", first.inode).former(job) == ""
    (job / "drone.json").write_text("{")
    assert second.former(job) == ""


def test_a_copy_of_the_directory_succeeds_no_one(tmp_path):
    job, copy = tmp_path / "job", tmp_path / "copy"
    job.mkdir()
    Successor.of(job, "first").write(job)
    shutil.copytree(job, copy)
    assert Successor.of(copy, "second").former(copy) == ""
    assert (
        Successor.of(job.rename(tmp_path / "moved"), "second").former(tmp_path / "moved") == "first"
    )

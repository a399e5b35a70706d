"""Whose leases the next process on a job directory takes over."""

import shutil

from webcrawl.hive.membership import succession
from webcrawl.hive.membership.succession import last_drone, record_drone


def test_the_next_process_on_a_directory_succeeds_the_last_one_in_the_same_boot(
    tmp_path, monkeypatch
):
    assert last_drone(tmp_path) == ""
    record_drone(tmp_path, "first")
    assert last_drone(tmp_path) == "first"
    for other in ("another boot", ""):
        with monkeypatch.context() as patch:
            patch.setattr(succession, "boot_id", lambda: other)  # noqa: B023  # called at once
            assert last_drone(tmp_path) == ""
            record_drone(tmp_path, "other")
            assert last_drone(tmp_path) == ("other" if other else "")
    (tmp_path / "DRONE").write_bytes(b"\xff")
    assert last_drone(tmp_path) == ""


def test_a_copy_of_the_directory_succeeds_no_one(tmp_path):
    job = tmp_path / "job"
    job.mkdir()
    record_drone(job, "first")
    assert last_drone(shutil.copytree(job, tmp_path / "copy")) == ""
    assert last_drone(job.rename(tmp_path / "moved")) == "first"

import pytest
from disk import full_disk

from webcrawl.frontier.done_log import (
    Contact,
    Distrust,
    DoneLog,
    Finish,
    Release,
    Requeue,
    read_done_log,
)
from webcrawl.frontier.recovery import replay
from webcrawl.frontier.snapshot import FrontierSnapshot
from webcrawl.storage.record_log import CorruptRecordError

RECORDS = [
    Contact("a.test", 5.25, 0.0),
    Contact("b.test", 5.25, 20.0),
    Release("a.test", 9.5, 2.0, is_contact=True),
    Finish(2**64 - 1, b""),
    Finish(7, b"8 bytes!", "http_200", 2**40, is_duplicate=True),
    Finish(8, b"", "robots_denied"),
    Requeue(b"an entry", "http_200"),
    Distrust(),
]


def read(path, first=1):
    log = DoneLog(path=path)
    log.open(first)
    log.close()
    return list(read_done_log(path, first))


def names(path):
    return sorted(file.name for file in path.iterdir())


@pytest.fixture
def log(jobdir):
    made = DoneLog(path=jobdir)
    made.open(1)
    yield made
    made.close()


@pytest.fixture
def written(log):
    """Return a closed log that has RECORDS."""
    first, second, release, *rest = RECORDS
    log.write(first, second)
    log.release(release, at_once=False)
    for record in rest:
        log.write(record)
    log.close()


def test_every_kind_of_record_is_read_as_it_was_written(jobdir, written):
    assert read(jobdir) == RECORDS


def test_log_cut_at_any_byte_gives_a_beginning_of_the_records(jobdir, written):
    whole = (jobdir / "00000001.log").read_bytes()
    lengths = set()
    for size in range(len(whole) + 1):
        for other in jobdir.glob("*.log"):
            other.unlink()
        (jobdir / "00000001.log").write_bytes(whole[:size])
        records = read(jobdir)
        assert records == RECORDS[: len(records)]
        lengths.add(len(records))
    # Contacts go by one write, and the release with the finish after it.
    assert lengths == {0, 2, 4, 5, 6, 7, 8}


def test_release_waits_for_the_next_write_unless_it_must_not(jobdir, log):
    def release(*, at_once=False):
        log.release(Release("a.test", 9.0, 2.0), at_once=at_once)
        return len([*read_done_log(jobdir, 1)])

    assert release() == 0
    assert release(at_once=True) == 2
    assert [release() for _ in range(65)] == [2] * 64 + [67]
    release()
    log.rotate()
    assert release() == 68
    log.close()
    log.close()
    assert len(read(jobdir)) == 69


def test_segments_after_the_named_one_are_replayed_and_older_ones_deleted(jobdir, log):
    log.write(Finish(1, b""))
    assert log.rotate() == 2
    log.write(Finish(2, b""))
    assert log.rotate() == 3
    log.write(Finish(3, b""))
    log.close()
    assert read(jobdir, 2) == [Finish(2, b""), Finish(3, b"")]
    assert names(jobdir) == ["00000002.log", "00000003.log", "00000004.log"]


def test_segments_behind_a_gap_are_deleted(jobdir, log):
    log.write(Finish(1, b""))
    log.rotate()
    log.rotate()
    log.write(Finish(3, b""))
    log.close()
    (jobdir / "00000002.log").unlink()
    assert read(jobdir) == [Finish(1, b"")]
    assert names(jobdir) == ["00000001.log", "00000002.log"]


def test_segments_are_deleted_only_after_a_snapshot_is_published(jobdir, log):
    log.rotate()
    log.rotate()
    assert len(names(jobdir)) == 3
    assert set(log.written()) == {jobdir, jobdir / "00000003.log"}
    log.forget()
    assert names(jobdir) == ["00000003.log"]
    assert log.written() == [jobdir / "00000003.log"]


def test_segment_whose_pages_were_never_written_is_an_empty_one(jobdir, log):
    log.write(Finish(1, b""))
    log.rotate()
    log.write(Finish(2, b""))
    log.close()
    (jobdir / "00000001.log").write_bytes(bytes(64))
    assert read(jobdir) == [Finish(2, b"")]


def test_segment_that_is_a_different_file_is_damage(jobdir, log):
    log.close()
    (jobdir / "00000001.log").write_bytes(b"no such file of ours")
    with pytest.raises(CorruptRecordError, match="not a record log header"):
        read(jobdir)


def test_write_that_fails_leaves_the_log_as_it_was(jobdir, log):
    log.release(Release("a.test", 9.0, 2.0), at_once=False)
    with full_disk(20):
        log.write(Finish(7, b""))
    assert [*read_done_log(jobdir, 1)] == []
    log.write(Finish(8, b""))
    assert [*read_done_log(jobdir, 1)] == [Release("a.test", 9.0, 2.0), Finish(8, b"")]


def test_replay_keeps_finishes_after_a_distrust_only():
    log = [
        Finish(1, b"one-----"),
        Requeue(b"again"),
        Distrust(),
        Finish(2, b"two-----"),
        Finish(3, b""),
    ]
    found = replay(log, since=FrontierSnapshot())
    assert found.finished == log[3:]
    assert found.requeued == log[1:2]

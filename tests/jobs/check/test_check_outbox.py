"""The check of a drone's outbox reads every message, and tells what is damaged."""

import msgspec
from bus_rig import links
from disk import flipped

from webcrawl.hive.bus.messages import encode_links
from webcrawl.hive.bus.outbox import Outbox
from webcrawl.jobs.check.files import check_outbox
from webcrawl.jobs.check.findings import Findings


def checked(path, saved):
    findings = Findings(jobdir=path.parent, on_progress=lambda _: None)
    findings.begin("outbox")
    with findings.catch_errors(path, ""):
        check_outbox(path, saved, findings)
    return findings


def test_messages_before_and_after_the_checkpoint_are_read(tmp_path):
    path = tmp_path / "outbox"
    outbox = Outbox(path=path)
    outbox.open(None)
    outbox.append_all([(1, encode_links(links(3)), ())])
    saved = outbox.snapshot()
    outbox.append_all([(2, encode_links(links(3)), ())])
    outbox.close()
    before, after = sorted(path.iterdir())
    assert checked(path, saved).damage == []
    whole = after.read_bytes()
    after.write_bytes(whole[:-1])
    assert checked(path, saved).damage == []
    assert checked(path, saved).note_count == 1
    after.write_bytes(whole)
    data = before.read_bytes()
    for at in range(8, len(data)):
        before.write_bytes(flipped(data, at))
        (finding,) = checked(path, saved).damage
        assert finding.file == "outbox/000001.log"
    before.unlink()
    assert "gone" in checked(path, saved).damage[0].what


def test_records_and_snapshots_of_something_else_are_damage(tmp_path):
    path = tmp_path / "outbox"
    outbox = Outbox(path=path)
    outbox.open(None)
    outbox.append_all([(1, b"no message", ())])
    saved = outbox.snapshot()
    outbox.close()
    assert len(checked(path, saved).damage) == 1
    assert len(checked(path, msgspec.msgpack.encode("no snapshot")).damage) == 1

"""The sample of refused URLs is bounded."""

import json

from webcrawl.crawl.links.refused_log import REFUSED_LOG, RefusedLog


def test_what_many_runs_wrote_is_begun_anew_at_four_mebibytes(tmp_path):
    (tmp_path / "logs").mkdir()
    path = tmp_path / REFUSED_LOG
    log = RefusedLog(jobdir=tmp_path, clock=lambda: 1.0)
    log.append("port", 1, "http://a.test:22/" + "x" * 5000, "http://a.test/", "")
    (line,) = map(json.loads, path.read_text().splitlines())
    assert (line["filter"], line["number"], len(line["url"])) == ("port", 1, 4096)
    path.write_bytes(path.read_bytes() * 900)
    assert path.stat().st_size < 4 << 20
    log.append("port", 2, "http://b.test:22/", "", "")
    assert len(path.read_bytes().splitlines()) == 901
    path.write_bytes(path.read_bytes() * 2)
    log.append("port", 4, "http://c.test:22/", "", "")
    (line,) = map(json.loads, path.read_text().splitlines())
    assert line["number"] == 4

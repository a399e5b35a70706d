"""A small hive that renders: nightly/test_hive_rendering.py disturbs larger ones."""

from crawling import RIGS, simulated
from hive_crawl import HiveCrawl
from rendered_hive import SCRIPTED, SETTINGS, judge_rendering


def test_two_drones_render_what_one_process_does(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", RIGS)
    given = SETTINGS | {"RENDER_ENGINE": SCRIPTED}
    with (
        simulated(tmp_path, "rendered", hosts=9, mean_pages=3.0, max_pages=4) as web,
        HiveCrawl(web, tmp_path, **given) as hive,
    ):
        hive.join(2)
        # As of a drone that was killed, to which it was to be kept for long.
        body = tmp_path / "store/bodies/09999999999.000-0"
        body.parent.mkdir()
        body.touch()
        hive.end()
        assert not body.exists()
        assert judge_rendering(web)

"""The summary of a hive on one machine: the drones' stats as those of one crawl."""

import json

from webcrawl.hive.launch.crawl_stats import hive_summary, merge_stats


def test_counts_are_added_and_times_are_not():
    one = {"contacts": 3, "elapsed_time_seconds": 20.0, "finish_reason": "finished", "a": "x"}
    other = {"contacts": 4, "elapsed_time_seconds": 21.5, "finish_reason": "shutdown", "a": "y"}
    expected = {"contacts": 7, "elapsed_time_seconds": 21.5, "finish_reason": "shutdown", "a": "x"}
    assert merge_stats([one, other]) == expected
    assert merge_stats([other, one])["finish_reason"] == "shutdown"


def test_it_names_the_files_of_all_drones(tmp_path):
    for number in range(2):
        directory = tmp_path / "drones" / str(number)
        directory.mkdir(parents=True)
        stats = {"outcome/http_200": 10 + number, "finish_reason": "hive_stopped"}
        stats |= {"contacts": 12, "warc/bytes": 100}
        (directory / "stats.json").write_text(json.dumps(stats))
    (tmp_path / "drones" / "2").mkdir()
    text = hive_summary(tmp_path, sorted((tmp_path / "drones").iterdir()))
    assert "end  stopped by scrapy hive stop\n" in text
    assert "pages  21 (0 of them" in text
    assert f"WARC  {tmp_path}/drones/*/warc/*.warc.gz\n" in text
    assert f"stats  {tmp_path}/drones/*/stats.json\n" in text


def test_without_stats_there_is_none(tmp_path):
    assert hive_summary(tmp_path, [tmp_path]) == ""

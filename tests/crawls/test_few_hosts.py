"""A crawl whose last hosts are slow hands back what is left, and can be resumed."""

from crawling import finish, pages_asked_for, printed, simulated
from web_truth import allowed_urls


def test_with_few_hosts_left_a_crawl_hands_back_the_rest_and_can_go_on(tmp_path):
    with simulated(tmp_path, hosts=12, max_pages=60, mean_pages=15.0) as web:
        tail = {"CLOSESPIDER_FEW_HOSTS": 6, "CLOSESPIDER_FEW_HOSTS_SECS": "500ms"}
        output = finish(web.command(POLITENESS_MIN_DELAY=0.2, **tail))
        remainder = web.job / "remainder.csv"
        said = " ".join(output.split())
        assert f" left {remainder}: the URLs that are left, as a seed list" in said
        assert web.stats["finish_reason"] == "closespider_few_hosts"
        heading, *lines = remainder.read_text().splitlines()
        assert heading.startswith("# The frontier of 'job', checkpoint")
        assert f"their {len(lines):,} URLs were written to {remainder}." in output
        printed("frontier", web.job, "--export", tmp_path / "again.csv")
        assert (tmp_path / "again.csv").read_text() == remainder.read_text()
        left = {line.partition(",")[2] for line in lines}
        assert left
        assert len({url.split("/")[2] for url in left}) < 6
        web.crawl()
        assert set(pages_asked_for(web.hits())) == allowed_urls(web.world, "webcrawl")
        stats = web.stats
        assert stats["links/found"] >= stats["links/found_unique"] > stats["links/pages"] > 0
        assert stats["pages/links_mean"] >= stats["pages/links_unique_mean"] > 0
        assert stats["fetch/decoded_bytes"] > stats["fetch/sent_bytes"] > 100

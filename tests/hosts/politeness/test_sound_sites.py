"""Tests that no page of sound sites is flagged, although their pages look alike."""

import pytest
from host_rig import Records
from scrapy.http import HtmlResponse
from sound_sites import KINDS, PATHS, pages_of

from webcrawl.hosts.politeness.walls import Walls
from webcrawl.net.walls import SOFT_ERROR
from webcrawl.urls import host_of


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_page_of_a_sound_site_is_flagged(kind, path):
    records = Records()
    walls = Walls(records=records, count=lambda _: None)
    for page in pages_of(kind, path):
        url = f"http://a.test{page.path}"
        response = HtmlResponse(url, body=page.body, headers={"Content-Type": "text/html"})
        assert walls.judge(url, response) == ""
        assert SOFT_ERROR not in response.flags
        records.get(host_of(url)).pages += 1

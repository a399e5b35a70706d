"""Scrapy's parts that are imported late: there if they are on."""

from __future__ import annotations

import pytest
from scrapy.downloadermiddlewares import cookies
from scrapy.exceptions import NotConfigured
from scrapy.extensions import remote_control
from scrapy.utils.test import get_crawler

from webcrawl.extensions.late_imports import CookiesMiddleware, RemoteControl


@pytest.mark.parametrize(
    ("late", "setting", "kind"),
    [
        (RemoteControl, "REMOTE_CONTROL_ENABLED", remote_control.RemoteControl),
        (CookiesMiddleware, "COOKIES_ENABLED", cookies.CookiesMiddleware),
    ],
)
def test_a_part_of_scrapys_is_there_when_it_is_on(late, setting, kind):
    assert isinstance(late.from_crawler(get_crawler(settings_dict={setting: True})), kind)
    with pytest.raises(NotConfigured):
        late.from_crawler(get_crawler(settings_dict={setting: False}))

"""Scrapy's remote control: there if it is on, and not even imported if not."""

import pytest
from scrapy.exceptions import NotConfigured
from scrapy.extensions import remote_control
from scrapy.utils.test import get_crawler
from text_tables import each

from webcrawl.extensions.remote_control import RemoteControl


@each("is_on", True, False)
def test_remote_control_is_scrapys_when_it_is_on(is_on):
    crawler = get_crawler(settings_dict={"REMOTE_CONTROL_ENABLED": is_on})
    if is_on:
        assert isinstance(RemoteControl.from_crawler(crawler), remote_control.RemoteControl)
    else:
        with pytest.raises(NotConfigured):
            RemoteControl.from_crawler(crawler)

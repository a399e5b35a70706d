"""Settings that differ from their defaults."""

from scrapy.utils.project import get_project_settings
from text_tables import each

from webcrawl.configuration.changed import changed_settings


@each(
    "name value is_changed",
    ("POLITENESS_BACKOFF_SECS", "10", False),
    ("POLITENESS_BACKOFF_SECS", "11", True),
    ("REVISIT", "0", False),
    ("REVISIT", "False", False),
    ("REVISIT", "1", True),
    ("CONCURRENT_REQUESTS", "200", False),
    ("USER_AGENT", "mine", True),
)
def test_a_value_from_a_command_line_is_the_default_however_it_is_spelt(name, value, is_changed):
    settings = get_project_settings()
    settings.set(name, value, priority="cmdline")
    assert (name in {changed for changed, _, _ in changed_settings(settings)}) == is_changed

"""What of a page is compared with the last visit."""

from contracts.modules import a_page
from scrapy.settings import Settings
from text_tables import each

from webcrawl.pipelines.text import TextDataset
from webcrawl.revisit.change import text_fingerprint_of

MAIN = b"<main><p>" + b"A sentence of the main text. " * 20 + b"</p></main>"


class MyDataset(TextDataset):
    pass


@each(
    "modules is_main_text",
    ({}, False),
    ({TextDataset: None}, False),
    ({"webcrawl.pipelines.warc.WarcPipeline": 1}, False),
    ({"webcrawl.pipelines.search_index.SearchIndex": 1}, True),
    ({"webcrawl.pipelines.text.TextDataset": 1}, True),
    ({MyDataset: 1}, True),
)
def test_the_main_text_is_compared_if_a_module_needs_it(modules, is_main_text):
    fingerprint = text_fingerprint_of(Settings({"ITEM_PIPELINES": modules, "TEXT_MAX_CHARS": 9999}))
    plain, navigated = (
        a_page(b"<body>" + navigation + MAIN)
        for navigation in (b"", b"<nav><a href='/'>Home</a></nav>")
    )
    assert (fingerprint(plain) == fingerprint(navigated)) is is_main_text

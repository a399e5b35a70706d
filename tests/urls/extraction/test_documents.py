"""Links of documents by the HTML Standard: small ones, and large ones on the thinned path."""

import pytest
from document_cases import BASES, ENCODINGS, IMAGES, TEMPLATES
from documents import PADDING, URL
from text_tables import each

from webcrawl.urls.extraction.html import extract
from webcrawl.urls.extraction.kinds import DEFAULT_KINDS


def paths(case, *, is_padded, kinds):
    """The links of a case as its row has them."""
    charset = case.content_type.partition("charset=")[2]
    links = extract(
        case.body + PADDING * is_padded, url=URL, charset=charset, limit=100, kinds=kinds
    ).links
    return [link.url.removeprefix("http://a.test") for link in links]


@each("is_padded", False, True, ids=["small", "padded"])
@each(
    "case kinds",
    *(
        pytest.param(case, DEFAULT_KINDS, id=f"{table}: {name}")
        for table, cases in (("base", BASES), ("template", TEMPLATES), ("encoding", ENCODINGS))
        for name, case in cases.items()
    ),
    *(
        pytest.param(case, frozenset({"img", "source"}), id=f"image: {name}")
        for name, case in IMAGES.items()
    ),
)
def test_links_are_those_of_the_standard(case, kinds, is_padded):
    expected = case.links if case.thinned is None or not is_padded else case.thinned
    assert paths(case, is_padded=is_padded, kinds=kinds) == expected

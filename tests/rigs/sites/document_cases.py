"""Documents with the links that they have, from tests/data/documents.toml.

Each is read whole and, padded, on the thinned path. They are frozen for ``make test``;
``test_documents_in_browser`` asks the browser again.
"""

from typing import NamedTuple

from wire_text import table


class Case(NamedTuple):
    """A row of the table, whose head says what the fields are."""

    body: bytes
    links: list
    thinned: list | None
    browser: list | None
    content_type: str


def _case(*, body, links, codec="utf-8", content_type="text/html; charset=utf-8", **row):
    body = body.replace("{nav}", "<nav><a href=/1>1</a></nav>").replace("{long}", "b" * 3000)
    thinned, browser = row.get("thinned"), row.get("browser")
    return Case(body.encode(codec), links, thinned, browser, content_type)


BASES, TEMPLATES, ENCODINGS, IMAGES = (
    {name: _case(**row) for name, row in rows.items()} for rows in table("documents").values()
)

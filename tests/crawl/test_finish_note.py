"""The note of a finished URL: what is written is read, what an earlier version wrote too."""

from __future__ import annotations

import pytest

from webcrawl.crawl.finish_note import content_of, encode_note
from webcrawl.storage.record_log import NewerFormatError

LARGEST = (1 << 64) - 1


@pytest.mark.parametrize("content", [0, 1, 77, LARGEST])
def test_what_is_written_is_read(content):
    assert content_of(encode_note(content)) == content


@pytest.mark.parametrize("content", [1, LARGEST])
def test_a_note_without_a_version_is_read(content):
    assert content_of(content.to_bytes(8, "little")) == content


def test_fields_that_are_added_are_skipped():
    assert content_of(encode_note(77) + b"more") == 77


def test_a_later_version_is_refused():
    with pytest.raises(NewerFormatError, match="notes have format 2, this webcrawl reads up to 1"):
        content_of(b"\x02" + encode_note(77)[1:])

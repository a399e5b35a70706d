"""Links, charset and robots directives of a document, by content type."""

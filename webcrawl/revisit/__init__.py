"""Revisits: what a finished URL's entry remembers of its document, and what a visit finds."""

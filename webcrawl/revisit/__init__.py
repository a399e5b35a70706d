"""Revisits: what is remembered about a finished URL's document, and what a visit finds."""

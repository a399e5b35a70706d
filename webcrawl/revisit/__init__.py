"""Repeat visits: which finished URLs are fetched again, when, and what has changed."""

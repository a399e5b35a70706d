"""Spiders of the project: ``web`` and ``walk``."""

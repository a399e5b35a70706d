"""Spiders: ``web``, and those of users."""

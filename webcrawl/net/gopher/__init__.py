"""Gopher: download handler, menus."""

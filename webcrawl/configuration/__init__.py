"""Typed readers for settings and for bytes from outside; division of MEMORY_BUDGET."""

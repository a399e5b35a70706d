"""Typed readers for settings and for untrusted bytes, and the division of MEMORY_BUDGET."""

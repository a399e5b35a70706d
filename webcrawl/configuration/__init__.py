"""Typed readers of settings, and MEMORY_BUDGET divided among caches and buffers."""

"""Typed readers of settings and of foreign bytes; MEMORY_BUDGET divided among its users."""

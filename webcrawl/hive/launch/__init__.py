"""Starts, watches and stops the processes of a hive.

A ``Supervisor`` runs the drones of one machine as child processes, starts Redis if none is named,
and prints a table on the terminal. status.py makes a table of a hive from Redis; crawl_stats.py
reads counts from job directories.
"""

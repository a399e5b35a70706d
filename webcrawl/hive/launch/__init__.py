"""Starts, watches and stops the processes of a hive.

On one machine, a ``Supervisor`` runs the drones as child processes, starts Redis if none is named,
and prints a table on the terminal. On many machines, each machine's scrapyd runs its drones
(scrapyd_hosts.py, scrapyd_api.py). status.py makes a table of a hive from Redis; crawl_stats.py
reads counts from job directories.
"""

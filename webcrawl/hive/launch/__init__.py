"""Launch: starting, watching and ending the processes of a hive.

On one machine a ``Supervisor`` runs drones as child processes, starts Redis if none is named, and
prints a table on the terminal. On many machines, each machine's scrapyd runs them
(scrapyd_hosts.py, scrapyd_api.py). status.py makes a table of a hive from Redis; crawl_stats.py has
the counts from job directories.
"""

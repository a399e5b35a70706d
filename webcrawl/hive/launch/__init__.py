"""Launch: the processes of a hive, started, watched and ended.

On one machine a `Supervisor` runs drones as child processes, with Redis if none is named, and a
table on the terminal. On many machines their scrapyds do (scrapyd_hosts.py, scrapyd_api.py).
status.py is the table of what Redis has of a hive, crawl_stats.py the counts from job directories.
"""

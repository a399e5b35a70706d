"""Monitor: the page of a running crawl and its API by HTTP, in a process beside it (MONITOR_PORT).

    access.py    who may look and who may change something: token, cookie, Host and Origin
    site.py      what is answered under which path
    watch.py     the page as of a moment ago, and what is asked of the job
    launch.py    its start and its end, by the crawl
    process.py   the process

It reads the files of the job, as the commands do that ask it, and sends what ``scrapy control``
sends. So it costs the crawl nothing but a process, and is the same for a hive, whose supervisor
starts it.
"""

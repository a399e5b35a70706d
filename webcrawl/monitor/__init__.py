"""Monitor: the web page and HTTP API of a running crawl, in a separate process (MONITOR_PORT).

    access.py    who may read and who may send commands: token, Host and Origin
    serving.py   limits of its server, which the extension WebSub has, too
    site.py      the routes and their answers
    watch.py     the current page, queries to the job, and commands to the crawl
    launch.py    starting and stopping the process
    process.py   the process itself

The monitor reads the files of the job and sends the same commands as ``scrapy control``. The only
cost to the crawl is one more process. It works in the same way for a hive, whose supervisor starts
it.
"""

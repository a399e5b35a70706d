"""Carries links and Requests between the shards of a hive.

::

    page's links --> HostSplitter -- links to its own shard --> Shard.submit
                          |
                       Outbox          of the sending shard; on disk until the target has published
                          |
                       Sender --> stream of the target in Redis --> Receiver
                                                                       |
                                                         Inbox: position, part of the target's state

Each message arrives at least once: when Redis has lost data, outboxes are sent again from the last
acknowledged message on. Live seeds are a list in Redis that users push to.
"""

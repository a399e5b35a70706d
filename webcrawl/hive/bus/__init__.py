"""Bus: transport of links and Requests between shards.

::

    page's links --> HostSplitter -- of its own shard --> Shard.submit
                          |
                       Outbox          the sending shard's: on disk until the target has published
                          |
                       Sender --> stream of the target in Redis --> Receiver
                                                                       |
                                                         Inbox: position, part of the target's state

A message arrives at least once: when Redis has lost data, outboxes are sent again from the last
acknowledged message. Live seeds are a list in Redis that users push to.
"""

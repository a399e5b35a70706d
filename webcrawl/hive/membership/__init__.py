"""Membership: the drones of a hive, and the shards that each of them holds.

A drone has a lease in Redis, and by it its shards (membership.py), with fencing tokens. A thread
renews it (lease_keeper.py); `Holding` is until when it is good. One drone at a time is the queen
(queen.py), which decides from the `Report` of each drone. connection.py is the client of Redis,
embedded_redis.py a server of a hive's own; keys.py names what is in it. A process that goes on in
the directory of one that died takes over its leases (succession.py).
"""

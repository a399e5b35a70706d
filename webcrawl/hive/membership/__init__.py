"""Membership: the drones of a hive, and the shards that each of them holds.

A drone has a lease in Redis and by it holds shards, with fencing tokens (membership.py). A thread
renews the lease (lease_keeper.py); ``Holding`` records how long it is valid. One drone at a time is
the queen (queen.py), which makes decisions from the ``Report`` of each drone. connection.py has the
Redis client, embedded_redis.py the server of one hive, and keys.py the keys in Redis. A process
that continues in the directory of one that died takes over its leases (succession.py).
"""

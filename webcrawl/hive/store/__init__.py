"""Stores checkpoints of shards where all drones can reach them (HIVE_STORE).

``CheckpointStore`` publishes shards (upload.py) and fetches them (download.py) under the token of
their lease. So a drone that has lost a shard cannot replace a newer checkpoint. checkpoint_files.py
defines the format of a checkpoint. HIVE_STORE is an ``ObjectStore`` (storage/object_store.py): a
directory, or a bucket of an object store.
"""

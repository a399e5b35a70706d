"""Store: checkpoints of shards in a place that all drones can reach (HIVE_STORE).

``CheckpointStore`` publishes shards (upload.py) and fetches them (download.py) under the token of
their lease. So a drone that lost a shard cannot replace a newer checkpoint. checkpoint_files.py has
the format of a checkpoint. The place is an ``ObjectStore`` (storage/object_store.py): a directory,
or any URL that fsspec knows.
"""

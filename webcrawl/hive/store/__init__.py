"""Store: checkpoints of shards where any drone can find them (HIVE_STORE).

`CheckpointStore` publishes a shard (upload.py) and fetches one (download.py), under the token of
its lease, so that a drone that lost the shard cannot replace a newer checkpoint.
checkpoint_files.py is the form in which a checkpoint is stored; the place is an `ObjectStore`
(storage/object_store.py), a directory or any URL that fsspec knows.
"""

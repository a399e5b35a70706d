"""Job: the job directory and its checkpoints.

`Job` locks the directory and saves the states of the job and of its shards, each a `StateDirectory`
with its own CURRENT, manifest and snapshot. `Checkpointer` makes a checkpoint at intervals and at
the end; `KeptCheckpoints` keeps older ones, as hard links. A checkpoint also records the crawl's
settings (saved_settings.py), its public suffix list (suffix_lists.py) and its totals (totals.py).

A crash leaves the last published checkpoint and the logs after it, from which every part resumes.
"""

"""Job: the job directory and its checkpoints.

`Job` locks the directory and saves the states of the job and of its shards, each a
`StateDirectory` with a CURRENT, a manifest and a snapshot of its own. `Checkpointer` makes a
checkpoint now and then and at the end; `KeptCheckpoints` are older ones, as hard links. What a
checkpoint says of the crawl: its settings (saved_settings.py), its public suffix list
(suffix_lists.py), its totals (totals.py).

A crash leaves the last published checkpoint and the logs since, from which every part goes on.
"""

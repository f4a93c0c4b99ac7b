"""One function over many inputs: on this machine's processes, or on a Dask cluster.

Nothing here knows what a snapshot is. `memreplay.workers.running` says what all of them give back.
"""

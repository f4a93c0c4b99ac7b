"""Run a function over many inputs: in local processes or on a Dask cluster.

Knows nothing about snapshots. `memreplay.workers.running` defines the results.
"""

"""What the numbers mean: pure functions from a snapshot to the results of `memreplay.snapshot.model`."""

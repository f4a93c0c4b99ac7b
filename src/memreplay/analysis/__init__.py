"""What the numbers mean: pure functions over a snapshot, which several commands share."""

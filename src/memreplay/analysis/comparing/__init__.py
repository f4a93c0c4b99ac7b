"""Compare two snapshots."""

"""Export snapshots as tables and files for other programs."""

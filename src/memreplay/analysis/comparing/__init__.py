"""Two snapshots side by side."""

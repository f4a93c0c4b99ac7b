"""Write snapshots: slices, other formats, dumps."""

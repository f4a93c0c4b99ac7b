"""Write a part of a snapshot as a new snapshot."""

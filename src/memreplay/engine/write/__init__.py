"""Snapshots written again: slices, other forms, dumps."""

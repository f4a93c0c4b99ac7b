"""Snapshots as arbitrary object graphs, pickled in any way, and a judge."""

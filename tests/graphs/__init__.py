"""Snapshots as object graphs of any kind, written as pickles in any way, and who judges them."""

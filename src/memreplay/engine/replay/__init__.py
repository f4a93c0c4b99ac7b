"""Columns to lifetimes, measures, blocks and segments."""

"""Combine and compare a run's ranks."""

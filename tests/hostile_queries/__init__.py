"""Queries that ask for too much, against a real server: `python -m tests.hostile_queries`."""

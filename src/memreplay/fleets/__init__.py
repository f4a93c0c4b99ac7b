"""Adds up what the ranks of a run did, and compares them."""

"""Interpret a snapshot's numbers, with pure functions that several commands share."""

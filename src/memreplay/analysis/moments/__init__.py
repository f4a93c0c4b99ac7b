"""Resolve moments, annotations and addresses to events."""

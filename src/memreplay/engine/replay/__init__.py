"""Replay a trace to get lifetimes, measures, blocks and segments."""

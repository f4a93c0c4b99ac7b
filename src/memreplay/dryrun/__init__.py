"""Dry runs: what stands for a card that is not there, and how a program is run on it."""

"""Unit tests: one module of the source each."""

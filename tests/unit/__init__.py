"""Unit tests: one module per source module."""

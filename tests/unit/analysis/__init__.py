"""Unit tests of analysis."""

"""Tests: unit analysis."""

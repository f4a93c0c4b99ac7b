"""Tests: unit native."""

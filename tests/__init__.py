"""Tests of memreplay, and their shared helpers."""

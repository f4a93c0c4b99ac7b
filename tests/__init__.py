"""Tests of memreplay, and the helpers they share."""

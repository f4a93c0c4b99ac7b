"""Tests of the replay and its measures, one file a module."""

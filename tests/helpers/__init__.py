"""Tests of what the tests stand on: oracles, makers of snapshots, models."""

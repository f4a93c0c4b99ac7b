"""Tests of the helpers that other tests rely on: oracles, snapshot builders, models."""

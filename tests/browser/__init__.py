"""Tests that open pages in real browsers, which ci/browsers installs."""

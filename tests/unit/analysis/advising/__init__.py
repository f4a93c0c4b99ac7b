"""Tests of analysis/advising."""

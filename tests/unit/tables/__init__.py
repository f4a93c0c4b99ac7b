"""Tests of the tables that are exported."""

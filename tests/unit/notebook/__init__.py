"""Tests of commands in the cells of a notebook."""

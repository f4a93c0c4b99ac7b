"""Tests of memreplay's commands in notebook cells."""

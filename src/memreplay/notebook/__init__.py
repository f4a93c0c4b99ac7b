"""Run commands in notebook cells."""

"""Programs of real frameworks, each of which records itself, in a dry run."""

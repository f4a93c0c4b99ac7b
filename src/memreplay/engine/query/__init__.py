"""Group, step and block map queries on measures."""

"""Whether numbers can be trusted."""

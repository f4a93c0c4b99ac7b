"""Judge whether numbers can be trusted."""

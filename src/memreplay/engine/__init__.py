"""All that is compiled, in stages: base, read, replay, query, write."""

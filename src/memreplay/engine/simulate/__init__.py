"""The allocator's own decisions, made anew."""

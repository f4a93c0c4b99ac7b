"""`memreplay allocations`."""

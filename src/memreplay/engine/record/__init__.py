"""Track a running program's allocations."""

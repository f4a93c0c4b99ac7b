"""Category rules, and the origins of allocations."""

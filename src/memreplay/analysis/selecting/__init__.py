"""Select devices, measures and allocations."""

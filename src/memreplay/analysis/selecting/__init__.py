"""Which devices, measures and allocations a report is of."""

"""Check snapshots against budgets, and find the code that broke them."""

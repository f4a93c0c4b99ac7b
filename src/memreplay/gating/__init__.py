"""Holds snapshots against budgets, and says what broke them."""

"""The fuzzer: `python -m tests.fuzz` makes broken inputs, and judges what becomes of each."""

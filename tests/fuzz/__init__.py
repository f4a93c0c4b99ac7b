"""The fuzzer: `python -m tests.fuzz` makes broken inputs, and judges what memreplay does with
each.
"""

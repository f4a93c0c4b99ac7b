"""Conformance: inputs that a reader must take, and inputs that it must refuse."""

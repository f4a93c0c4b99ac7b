"""Conformance: inputs that a reader must accept, and inputs that it must reject."""

"""Inputs that a reader must accept: bytes by name. The expected contents are what pickle loads."""

from __future__ import annotations

from tests.conformance.accept import files, opcodes, shapes

CASES: dict[str, bytes] = {**files.CASES, **opcodes.CASES, **shapes.CASES}

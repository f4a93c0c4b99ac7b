"""Inputs that a reader must take: by name, the bytes; pickle itself says what they hold."""

from __future__ import annotations

from tests.conformance.accept import files, opcodes, shapes

CASES: dict[str, bytes] = {**files.CASES, **opcodes.CASES, **shapes.CASES}

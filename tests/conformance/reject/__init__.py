"""Inputs that a reader must reject: bytes and expected error, by name."""

from __future__ import annotations

from tests.conformance.cases import Reject
from tests.conformance.reject import machine, others, shapes

CASES: dict[str, Reject] = {**machine.CASES, **others.CASES, **shapes.CASES}

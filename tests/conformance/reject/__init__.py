"""Inputs that a reader must refuse: by name, the bytes and the error."""

from __future__ import annotations

from tests.conformance.cases import Reject
from tests.conformance.reject import machine, others, shapes

CASES: dict[str, Reject] = {**machine.CASES, **others.CASES, **shapes.CASES}

"""Tests of render/document.py."""

from __future__ import annotations

import pytest

from memreplay.render.document import Note, Place


def test_parts_are_values() -> None:
    assert Place("f", "x.py", 1) == Place(function="f", file="x.py", line=1, note="")
    with pytest.raises(AttributeError):
        Note("x").level = "warning"  # type: ignore[misc]

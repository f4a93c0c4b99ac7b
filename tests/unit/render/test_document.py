"""Tests of render/document.py."""

from __future__ import annotations

import pytest

from memreplay.render.document import Heading, Note, Place, device_blocks


def test_parts_are_immutable_values() -> None:
    assert Place("f", "x.py", 1) == Place(function="f", file="x.py", line=1, note="")
    with pytest.raises(AttributeError):
        Note("x").level = "warning"  # type: ignore[misc]


def test_notes_of_all_devices_are_shown_once_at_the_end() -> None:
    first, second = Heading(("device 0",)), Heading(("device 1",))
    both, own = Note("in both", "warning"), Note("only here")
    found = device_blocks([[first, both], [second, both, own]])
    assert found == [first, second, own, Note("all devices: in both", "warning")]
    assert device_blocks([[first, both]]) == [first, both]
    assert device_blocks([]) == []

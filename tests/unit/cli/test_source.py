"""Tests of cli/source.py."""

from __future__ import annotations

import io
import sys

import pytest

from memreplay.cli.source import Reading, opened
from memreplay.model import Limits, Moment
from tests.unit.cli.conftest import FakeLibrary


def test_a_file_is_closed_afterwards(library: FakeLibrary) -> None:
    with opened("snap.pkl", Reading()):
        (snapshot,) = library.snapshots
        assert (snapshot.source, snapshot.closed) == ("snap.pkl", False)
    assert snapshot.closed


def test_a_dash_is_standard_input(library: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"\x80\x04"))
    monkeypatch.setattr(sys, "stdin", stdin)
    with opened("-", Reading()):
        assert library.snapshots[0].source is stdin.buffer


def test_a_file_that_cannot_be_opened(
    library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.errors["snap.pkl"] = FileNotFoundError()
    with pytest.raises(FileNotFoundError), opened("snap.pkl", Reading()):
        pytest.fail("it was opened")
    assert library.snapshots == []


def test_what_to_read_reaches_the_library(library: FakeLibrary) -> None:
    start = Moment("event", 7)
    with opened("snap.pkl", Reading(device=2, start=start, salvage=True)):
        assert library.reading == {
            "device": 2,
            "start": start,
            "stop": None,
            "salvage": True,
            "limits": Limits(),
            "project": (),
        }

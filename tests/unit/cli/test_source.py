"""Tests of cli/source.py."""

from __future__ import annotations

import io
import sys

import pytest

from memreplay.cli.source import opened
from tests.unit.cli.conftest import FakeLibrary


def test_a_file_is_closed_afterwards(library: FakeLibrary) -> None:
    with opened("snap.pkl"):
        (snapshot,) = library.snapshots
        assert (snapshot.source, snapshot.closed) == ("snap.pkl", False)
    assert snapshot.closed


def test_a_dash_is_standard_input(library: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"\x80\x04"))
    monkeypatch.setattr(sys, "stdin", stdin)
    with opened("-"):
        assert library.snapshots[0].source is stdin.buffer


def test_a_file_that_cannot_be_opened(
    library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.errors["snap.pkl"] = FileNotFoundError()
    with pytest.raises(FileNotFoundError), opened("snap.pkl"):
        pytest.fail("it was opened")
    assert library.snapshots == []

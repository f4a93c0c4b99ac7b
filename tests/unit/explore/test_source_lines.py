"""Tests of explore/source_lines.py: code is shown, and unusual files do no harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memreplay.explore import source_lines
from memreplay.explore.source_lines import lines_around


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_lines, "_kept", {})


def test_lines_have_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text("".join(f"line {i}\n" for i in range(1, 11)))
    assert lines_around(str(path), 5, 3) == [(4, "line 4"), (5, "line 5"), (6, "line 6")]
    assert lines_around(str(path), 1, 3) == [(1, "line 1"), (2, "line 2"), (3, "line 3")]
    assert lines_around(str(path), 10, 3)[-1] == (10, "line 10")
    assert len(lines_around(str(path), 10, 30)) == 10


def test_missing_or_unusual_source_has_no_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "code.py"
    path.write_text("one\n")
    assert lines_around(str(path), 2, 3) == []
    assert lines_around(str(path), 0, 3) == []
    assert lines_around("code.py", 1, 3) == []
    assert lines_around(str(tmp_path / "none.py"), 1, 3) == []
    assert lines_around(f"{tmp_path}/a\0b", 1, 3) == []
    assert lines_around(str(tmp_path), 1, 3) == []
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert lines_around(str(pipe), 1, 3) == []  # the call doesn't wait for the pipe
    assert lines_around("/dev/zero", 1, 3) == []
    binary = tmp_path / "binary"
    binary.write_bytes(b"a\n\0")
    assert lines_around(str(binary), 1, 3) == []
    monkeypatch.setattr(source_lines, "LARGEST", 3)
    large = tmp_path / "large.py"
    large.write_text("12345\n")
    assert lines_around(str(large), 1, 3) == []

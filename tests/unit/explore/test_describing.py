"""Tests of explore/describing.py: details of a row's stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memreplay.explore.describing import Describer
from memreplay.explore.rows.row import Shown
from memreplay.snapshot.model import Frame


class OneRow:
    """Rows for a single allocation."""

    def __init__(self, *frames: Frame) -> None:
        self.frames = frames

    def shown(self, _: int) -> Shown:
        return Shown("title", (), self.frames, tuple(range(len(self.frames))))


def told(*frames: Frame, width: int = 60, height: int = 40) -> list[str]:
    explored: Any = None
    rows: Any = OneRow(*frames)
    return [text for text, _ in Describer(explored).details(rows, 0, width, height)]


def test_source_line_is_below_its_frame() -> None:
    inner = Frame("f", "/no/a.py", 3, "y = g(x)\x1b" + "+ 1" * 30)
    found = told(inner, Frame("main", "/no/b.py", 5), width=30)
    assert found == [
        "title",
        "",
        "f  /no/a.py:3",
        "  > y = g(x)\\x1b+ 1+ 1+ 1+ 1+…",
        "main  /no/b.py:5",
    ]


def test_hidden_frames_are_counted() -> None:
    frames = [Frame("f", "/no/a.py", i, f"line {i}") for i in range(1, 10)]
    found = told(*frames, height=9)
    assert found[2:] == [
        *("f  /no/a.py:1", "  > line 1", "f  /no/a.py:2", "  > line 2", "f  /no/a.py:3"),
        "… 6 more frames",
    ]
    plain = [Frame("f", "/no/a.py", i) for i in range(1, 301)]
    assert told(*plain, height=1000)[-1] == "… 100 more frames"
    assert told(*plain[:5])[-1] == "f  /no/a.py:5"


def test_changed_source_file_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("one\n    two\nthree\n")
    for source, shown in (("two", True), ("too", False), (None, True)):
        frame = Frame("f", str(path), 2, source) if source else Frame("f", str(path), 2)
        assert ("1 one" in told(frame, width=200)) is shown

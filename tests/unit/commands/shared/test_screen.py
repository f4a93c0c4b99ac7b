"""Tests of commands/shared/screen.py: data on a terminal is visible and can't control it."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from memreplay.commands.shared.screen import Screen
from memreplay.width import PIPE_WIDTH
from tests.hostile import hostile_snapshot


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines_and_split_characters_are_kept(size: int) -> None:
    text = 'a,"b\x1b]52;c;ZXZpbA==\x07"\né,\x9b31m\u202e\n\U0001f600,\xad\n'
    out = io.BytesIO()
    screen = Screen(out)
    data = text.encode()
    for at in range(0, len(data), size):
        assert screen.write(data[at : at + size]) == len(data[at : at + size])
    found = out.getvalue().decode()
    assert found.count("\n") == 3
    assert found.replace("\n", "").isprintable()
    assert "\\x1b]52" in found
    assert "\U0001f600" in found


def test_undecodable_bytes_are_escaped() -> None:
    out = io.BytesIO()
    Screen(out).write(b"a\xff\x1b\n")
    assert out.getvalue() == b"a\\xff\\x1b\n"


def on_a_terminal(arguments: list[str], folder: Path) -> bytes:
    """Return the output that a command writes to a terminal."""
    import pty  # Windows has no pseudo-terminals

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "memreplay", *arguments],
        stdout=theirs,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", "TERM": "xterm"},
    ) as process:
        os.close(theirs)
        found = b""
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # the command has closed the terminal
                break
            if not piece:
                break
            found += piece
    os.close(ours)
    assert process.returncode == 0
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="a pseudo-terminal of Linux")
@pytest.mark.parametrize(
    "arguments",
    [
        ["sql", "evil.pkl", "select * from frames", "--format", "csv"],
        ["export", "evil.pkl", "--tables", "frames", "--format", "csv", "-o", "-", "--force"],
        ["timeline", "evil.pkl", "--by", "stack", "--format", "csv"],
        ["timeline", "evil.pkl", "--by", "stack", "--format", "csv", "-o", "-", "--force"],
    ],
)
def test_csv_cannot_affect_a_terminal(arguments: list[str], tmp_path: Path) -> None:
    words = ["\x1b]52;c;ZXZpbA==\x07", "\x9b31mred\x1b[2J", "\u202eevil\r\x08"]
    (tmp_path / "evil.pkl").write_bytes(pickle.dumps(hostile_snapshot(words)))
    found = on_a_terminal(arguments, tmp_path).decode().replace("\r\n", "\n")
    assert len(found.splitlines()) > 2
    assert all(line.isprintable() for line in found.split("\n"))


@pytest.mark.skipif(sys.platform != "linux", reason="a pseudo-terminal of Linux")
def test_rows_of_a_query_fit_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "evil.pkl").write_bytes(pickle.dumps(hostile_snapshot(["a"])))
    query = "select repeat('x', 300) as long from frames"
    found = on_a_terminal(["sql", "evil.pkl", query], tmp_path).decode()
    assert 2 < max(map(len, found.splitlines())) <= PIPE_WIDTH

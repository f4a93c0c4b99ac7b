"""Tests of commands/shared/progress.py."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable

import pytest

from memreplay.commands.shared import ending, progress


class Terminal(io.StringIO):
    """A stderr that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def make_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Replace stderr with a Terminal. Tests must call this themselves, because pytest restores
    stderr after a fixture.
    """
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def test_bar_is_omitted_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.reading_progress("snap.pkl") as update:
        assert update is None


def test_bar_is_omitted_on_a_dumb_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = make_terminal(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    with progress.reading_progress("snap.pkl") as update:
        assert update is None
    assert terminal.getvalue() == ""


def test_quick_work_shows_and_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = make_terminal(monkeypatch)
    monkeypatch.setattr(progress, "_make_bar", lambda: pytest.fail("a bar"))
    with progress.reading_progress("snap.pkl") as update:
        assert update is not None
        for done in range(5):
            update(done, 5)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("total", [1 << 30, None])
def test_slow_work_shows_a_bar_that_disappears(
    monkeypatch: pytest.MonkeyPatch, total: int | None
) -> None:
    terminal = make_terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY_S", -1.0)
    with progress.reading_progress("/data/[b]snap\x1b.pkl") as update:
        assert update is not None
        update(1 << 29, total)
        update(1 << 30, total)
    shown = terminal.getvalue()
    assert r"[b]snap\x1b.pkl" in shown
    assert "GiB" in shown or "GB" in shown
    assert "\x1b[2K" in shown.rpartition("[b]snap")[2]  # the line is erased at the end


def test_finished_files_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = make_terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY_S", -1.0)
    assert list(progress.counted(iter("abc"), 3, "ranks")) == ["a", "b", "c"]
    shown = terminal.getvalue()
    assert "3 of 3" in shown
    assert "ranks" in shown
    assert "\x1b[2K" in shown.rpartition("ranks")[2]


def test_nothing_is_counted_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY_S", -1.0)
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    assert list(progress.counted(iter("abc"), 3, "ranks")) == ["a", "b", "c"]
    assert stderr.getvalue() == ""


def test_standard_input_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = make_terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY_S", -1.0)
    with progress.reading_progress("-") as update:
        assert update is not None
        update(1, None)
    assert "standard input" in terminal.getvalue()


def test_bar_disappears_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = make_terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY_S", -1.0)

    def fail() -> None:
        with progress.reading_progress("snap.pkl") as update:
            assert update is not None
            update(1, 2)
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - it is this test's own
        fail()
    assert "\x1b[?25h" in terminal.getvalue()  # the cursor is visible again


def test_several_files_share_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = make_terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY_S", -1.0)
    with progress.several_progress(128) as showing:
        for file in ("run/rank0.pkl", "run/rank1\n.pkl"):
            with showing(file) as update:
                assert update is not None
                update(1, 2)
                update(2, 2)
    shown = terminal.getvalue()
    assert "1 of 128  rank0.pkl" in shown
    assert r"2 of 128  rank1\n.pkl" in shown
    assert shown.count("\x1b[?25h") == 1  # one bar, after which the cursor is visible again


def test_bar_makes_room_for_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, the error message would follow the bar on the same line."""
    terminal = make_terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY_S", -1.0)
    with progress.several_progress(2) as showing:

        def fail() -> None:
            with showing("a.pkl") as update:
                assert update is not None
                update(1, 2)
                raise ValueError

        with pytest.raises(ValueError):  # noqa: PT011 - it is this test's own
            fail()
        assert terminal.getvalue().endswith("\x1b[2K")  # no trace of the bar remains
        with showing("b.pkl") as update:
            assert update is not None
            update(1, 2)
    assert "2 of 2  b.pkl" in terminal.getvalue()


def test_several_files_share_a_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small files can take as long as a large one."""
    make_terminal(monkeypatch)
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with progress.several_progress(9) as showing:
        for file in "abc":
            now[0] += 0.4
            monkeypatch.setattr(progress, "_make_bar", lambda file=file: pytest.fail(file))
            with showing(file) as update:
                assert update is not None
                if file == "c":
                    with pytest.raises(pytest.fail.Exception, match="c"):
                        update(1, 1)
                else:
                    update(1, 1)


def test_bar_for_several_files_is_omitted_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.several_progress(3) as showing, showing("a") as update:
        assert update is None


def test_signal_restores_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[int, bytes]] = []
    undoings: list[Callable[[], object]] = []
    make_terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY_S", 0.0)
    monkeypatch.setattr(ending, "_undoings", undoings)
    monkeypatch.setattr(os, "write", lambda *args: written.append(args))
    with progress.reading_progress("x") as update:
        assert update is not None
        undoings[0]()
        assert written == []
        update(1, 2)
        undoings[0]()
    assert written == [(2, b"\r\x1b[2K\x1b[?25h")]
    assert undoings == []


def test_slow_work_without_a_measure_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = make_terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY_S", 0.0)
    with progress.working("making it"):
        until = time.monotonic() + 10
        while not terminal.getvalue() and time.monotonic() < until:
            time.sleep(0.001)
        assert terminal.getvalue() == "making it …"
    assert terminal.getvalue() == "making it …\r\x1b[2K"


def test_quick_or_failed_work_leaves_nothing_on_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = make_terminal(monkeypatch)

    def fail() -> None:
        with progress.working("making it"):
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - it is this test's own
        fail()
    assert terminal.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr("threading.Timer", lambda *_: pytest.fail("a thread for a pipe"))
    with progress.working("making it"):
        pass


def test_signal_clears_the_progress_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = make_terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY_S", 0.0)
    written: list[bytes] = []
    monkeypatch.setattr(os, "write", lambda _, data: written.append(data))
    with progress.working("making it"):
        until = time.monotonic() + 10
        while not terminal.getvalue() and time.monotonic() < until:
            time.sleep(0.001)
        for undo in ending._undoings:
            undo()
        assert written == [b"\r\x1b[2K"]

"""Tests of explore/command.py: the command needs a terminal, and restores it."""

from __future__ import annotations

import os
import pickle
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.analysis.selecting.selection import Selection
from memreplay.commands.explore.command import Begun, ExploreOptions, pane_of
from memreplay.commands.shared.source import Reading
from memreplay.explore.terminal import chars_of
from memreplay.snapshot.model import When
from tests.conftest import ROOT

GPT = str(ROOT / "examples" / "two_gpus.pkl.gz")
pytest.importorskip("textual")
RUN = "import sys; from memreplay.__main__ import run; run()"
FAILS = (
    "from memreplay.explore.app import Explorer\n"
    "def fails(self): raise RuntimeError('broken')\n"
    "Explorer.action_turn = fails\n" + RUN
)


def said(*words: str, **changes: str) -> tuple[int, str]:
    """Return what the command prints without a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "memreplay", "explore", *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=os.environ | changes,
        check=False,
    )
    return done.returncode, done.stderr


def test_command_needs_a_terminal() -> None:
    code, words = said(GPT)
    assert (code, words) == (
        2,
        (
            "memreplay: error: explore needs a terminal; memreplay peak and memreplay at print"
            " the same numbers\n"
        ),
    )
    code, words = said("-")
    assert (code, words.count("\n")) == (2, 1)
    assert "explore reads keys from standard input; give a file" in words


# These tests may run under nohup, which makes all processes ignore SIGHUP.
NOT_UNDER_NOHUP = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); "


class Played:
    """Run the command in a pseudo-terminal, with keys pressed one after another."""

    def __init__(
        self,
        code: str,
        *words: str,
        keys: str,
        wanted: bytes = b"of the peak",
        then: tuple[str | bytes, ...] = (),
        ends_by: signal.Signals | None = None,
        closes: bool = False,
        **changes: str,
    ) -> None:
        self.master, slave = pty.openpty()
        self.before = termios.tcgetattr(slave)
        started = subprocess.Popen(
            [sys.executable, "-c", NOT_UNDER_NOHUP + code, "explore", *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env=os.environ
            | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30", "PYTHONUTF8": "1"}
            | changes,
        )
        self.drawn = b""
        self.until(wanted, started)
        for key in keys:
            os.write(self.master, key.encode())
            time.sleep(0.1)
        for one in then:  # keys, and the text to be drawn after them
            if isinstance(one, str):
                time.sleep(0.2)
                before = len(self.drawn)
                os.write(self.master, one.encode())
            else:
                self.until(one, started, before)
        if ends_by is not None:
            started.send_signal(ends_by)
        try:
            if closes:
                os.close(self.master)
                os.close(slave)
            else:
                self.until(None, started)
            self.code = started.wait(30)
        finally:
            started.kill()
        if not closes:
            self.after = termios.tcgetattr(slave)
            os.close(slave)
            os.close(self.master)

    def until(self, wanted: bytes | None, of: subprocess.Popen[bytes], begin: int = 0) -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end and not (wanted and wanted in self.drawn[begin:]):
            ready, _, _ = select.select([self.master], [], [], 0.1)
            if ready:
                self.drawn += os.read(self.master, 1 << 16)
            elif of.poll() is not None:
                break


def left_as_it_was(played: Played) -> bool:
    """Check that the alternate screen is closed, the cursor visible and the mouse released."""
    end = played.drawn
    return (
        played.after == played.before
        and end.rfind(b"\x1b[?1049l") > end.rfind(b"\x1b[?1049h") >= 0
        and end.rfind(b"\x1b[?25h") > end.rfind(b"\x1b[?25l")
        and end.rfind(b"\x1b[?1000l") > end.rfind(b"\x1b[?1000h")
    )


@pytest.mark.slow
@pytest.mark.parametrize("keys", ["q", "\x03", "2pq", "?qq"])
def test_terminal_is_restored(keys: str) -> None:
    played = Played(RUN, GPT, keys=keys)
    assert (played.code, left_as_it_was(played)) == (0, True), played.drawn[-500:]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("file", [GPT, str(ROOT / "examples" / "fsdp_ranks")])
def test_terminal_is_restored_after_a_signal(file: str, number: signal.Signals) -> None:
    wanted = b"of the peak" if file == GPT else b"4 ranks"
    played = Played(RUN, file, keys="j", wanted=wanted, ends_by=number)
    assert (played.code, left_as_it_was(played)) == (128 + number, True), played.drawn[-500:]
    assert b"Traceback" not in played.drawn


def test_terminal_is_restored_after_an_exception() -> None:
    played = Played(FAILS, GPT, keys="t")
    assert played.code == 1
    assert left_as_it_was(played)
    assert b"broken" in played.drawn


@pytest.mark.slow
def test_terminal_without_unicode_gets_only_ascii() -> None:
    played = Played(RUN, GPT, keys="123q", PYTHONUTF8="0", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert played.code == 0
    assert played.drawn.isascii(), [one for one in played.drawn.splitlines() if not one.isascii()]


@pytest.mark.slow
def test_truncated_file_can_be_explored(tmp_path: Path) -> None:
    import gzip

    cut = tmp_path / "cut.pkl"
    with gzip.open(GPT) as file:
        cut.write_bytes(file.read()[:60_000])
    played = Played(RUN, str(cut), "--salvage", keys="q")
    assert played.code == 0
    assert b"the intact part of a file that is cut off" in played.drawn
    played = Played(RUN, str(cut), keys="")
    assert played.code == 4
    assert b"\x1b[?1049h" not in played.drawn
    assert played.drawn.count(b"error") == 1


@pytest.mark.slow
def test_start_moment_is_given_by_an_option() -> None:
    played = Played(RUN, GPT, "--at", "start", "--by", "category", "--device", "1", keys="q")
    assert played.code == 0
    assert b"the start of" in played.drawn
    played = Played(RUN, GPT, "--at", "peak:9999", keys="")
    assert played.code == 2
    assert b"there is no peak 9999" in played.drawn


OOM = ROOT / "examples" / "serving_oom.pkl.gz"


def begun(at: When | None = None, device: int | None = None) -> Begun:
    thread = threading.Thread(target=int)
    return Begun(ExploreOptions(at=at), Selection(), Reading(device=device), thread)


def test_explorer_starts_at_the_first_failed_request() -> None:
    snap = mr.open(OOM)
    (device,) = mr.oom(snap, oom=0).devices
    first = device.ooms[0].event_index
    (peak,) = mr.peak(snap).devices
    assert first != peak.peak_event
    assert pane_of(snap, "x", begun(), alone=True).looked.event == first
    asked = When("peak", 1)
    assert pane_of(snap, "x", begun(asked), alone=True).looked.event == peak.peak_event
    # comparisons start at both peaks
    assert pane_of(snap, "x", begun(), alone=False).looked.event == peak.peak_event


def test_explorer_starts_on_the_device_that_failed() -> None:
    def device(size: int, *, fails: bool) -> list[dict[str, Any]]:
        failed = {"action": "oom", "size": 99, "device_free": 0, "frames": [], "stream": 0}
        alloc = {"action": "alloc", "addr": 1 << 40, "size": size, "frames": [], "stream": 0}
        return [alloc, *[failed] * fails, {**alloc, "action": "free_completed"}]

    data = {
        "segments": [],
        "device_traces": [device(4096, fails=False), device(512, fails=True)],
        "allocator_settings": {},
    }
    snap = mr.open(pickle.dumps(data))
    look = pane_of(snap, "x", begun(), alone=True).looked
    assert (look.device, look.event) == (1, 1)
    assert pane_of(snap, "x", begun(), alone=False).looked.device == 0
    assert pane_of(snap, "x", begun(device=0), alone=True).looked.device == 0


@pytest.mark.slow
def test_two_files_or_a_folder_can_be_explored(tmp_path: Path) -> None:
    played = Played(RUN, GPT, GPT, keys="pq")
    assert played.code == 0
    assert b"both hold the same" in played.drawn
    folder = str(ROOT / "examples" / "fsdp_ranks")
    played = Played(
        RUN, folder, keys="", wanted=b"4 ranks", then=("\r", b"of the peak", "q", b"4 ranks", "q")
    )
    assert played.code == 0
    assert left_as_it_was(played)
    played = Played(RUN, folder, keys="", wanted=b"4 ranks", then=("\r", b"of the peak", "\x03"))
    assert (played.code, left_as_it_was(played)) == (0, True)
    played = Played(RUN, folder, GPT, keys="")
    assert played.code == 2
    assert b"is a folder; explore it without other files" in played.drawn


@pytest.mark.slow
def test_command_exits_with_its_terminal() -> None:
    """The terminal is closed without SIGHUP, as it is in a separate session."""
    played = Played(RUN, GPT, keys="", closes=True)
    assert played.code == 1


@pytest.mark.slow
def test_errors_may_be_redirected(tmp_path: Path) -> None:
    file = str(tmp_path / "errors")
    redirected = f"import os; os.dup2(os.open({file!r}, os.O_CREAT | os.O_RDWR), 2)\n"
    played = Played(redirected + RUN, GPT, keys="q")
    assert (played.code, left_as_it_was(played)) == (0, True)
    assert (tmp_path / "errors").read_bytes() == b""


def test_dumb_terminals_are_rejected() -> None:
    played = Played(RUN, GPT, keys="", wanted=b"same numbers", TERM="dumb")
    assert played.code == 2
    assert b"TERM is dumb" in played.drawn


def test_missing_textual_is_a_one_line_error(tmp_path: Path) -> None:
    code = "import sys; sys.modules['textual'] = None\n" + RUN
    played = Played(code, GPT, keys="")
    assert played.code == 2
    assert b"(the extra 'explore')" in played.drawn


@pytest.mark.parametrize("name", ["C", "POSIX", "en_US.UTF-8"])
def test_locale_without_unicode_is_drawn_in_ascii(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Utf8:
        encoding = "utf-8"

    monkeypatch.setenv("LC_ALL", name)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", Utf8())  # Python handles the C locale like this, too
    assert chars_of("auto") == ("blocks" if "UTF" in name else "ascii")
    assert chars_of("blocks") == "blocks"

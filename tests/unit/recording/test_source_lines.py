"""Tests of recording/source_lines.py: choosing the lines to keep, and limiting their number."""

from __future__ import annotations

import linecache
import os
import pickle
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.recording import session, source_lines
from memreplay.recording.facts import is_library, library_folders
from memreplay.recording.recorder import Recorder
from memreplay.recording.source_lines import PACKAGE, process_began
from tests.build import SnapshotBuilder
from tests.unit.recording.stand_in import Torch

Kept = dict[str, dict[str, str]]


def kept(*places: tuple[Any, Any], libraries: tuple[str, ...] = ()) -> Kept:
    """Return the lines kept for a snapshot with these frames, each in its own event."""
    events = [
        {"action": "alloc", "frames": [{"name": "<module>", "filename": file, "line": line}]}
        for file, line in places
    ]
    snapshot = {"device_traces": [events], "segments": []}
    return source_lines.source_lines(snapshot, lambda file: file.startswith(libraries))


def written(path: Path, text: str) -> str:
    """Write an old file."""
    path.write_text(text, encoding="utf-8")
    before = time.time() - 36_000
    os.utime(path, (before, before))
    return str(path)


@pytest.fixture
def code(tmp_path: Path) -> str:
    return written(tmp_path / "train.py", "import torch\n\nx = torch.empty(3)  # é  \nlast\n")


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pretend that the process starts after the files were written, with nothing cached."""
    monkeypatch.setattr(source_lines, "process_began", lambda: time.time() + 60)
    yield
    linecache.clearcache()


def test_lines_are_stripped(code: str) -> None:
    assert kept((code, 3), (code, 4), (code, 3)) == {
        code: {"3": "x = torch.empty(3)  # é", "4": "last"}
    }


@pytest.mark.parametrize("line", [2, 0, -1, 5, 2**64 - 1, None, "3"])
def test_line_outside_the_file_is_left_out(code: str, line: Any) -> None:
    assert kept((code, line)) == {}


def test_frames_of_segments_and_blocks_are_included(code: str) -> None:
    frames = [[{"name": "<module>", "filename": code, "line": line}] for line in (1, 3)]
    segment = {"frames": frames[0], "blocks": [{"frames": frames[1]}, {}]}
    found = source_lines.source_lines({"segments": [segment, {}]}, lambda _: False)
    assert found == {code: {"1": "import torch", "3": "x = torch.empty(3)  # é"}}


def stack(*frames: tuple[str, str, int]) -> Kept:
    """Return the kept part of one stack: functions, files and lines, innermost first."""
    made = [{"name": name, "filename": file, "line": line} for name, file, line in frames]
    snapshot = {"device_traces": [[{"action": "alloc", "frames": made}]], "segments": []}
    return source_lines.source_lines(snapshot, lambda file: file.startswith("<frozen"))


CODE = """import torch

def work(n):
    return list(map(lambda k: (
        torch.ones(k)
    ), range(n)))

class Net:
    size = torch.ones(3)
    def forward(self):
        return [torch.ones(k) for k in range(3)]

work(3)
"""


def test_function_names_match_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "net.py", CODE)
    assert stack(("<lambda>", path, 5), ("work", path, 4), ("<module>", path, 13)) == {
        path: {"5": "torch.ones(k)", "4": "return list(map(lambda k: (", "13": "work(3)"}
    }
    assert stack(("Net", path, 9)) == {path: {"9": "size = torch.ones(3)"}}
    assert stack(("forward", path, 11)) != {}
    assert stack(("torch_dynamo_resume_in_forward_at_11", path, 11)) != {}


@pytest.mark.parametrize("name, line", [("helper", 5), ("work", 1), ("work", 13), ("forward", 9)])
def test_function_that_does_not_match_its_file_has_no_line(
    name: str, line: int, tmp_path: Path
) -> None:
    path = written(tmp_path / "net.py", CODE)
    assert stack((name, path, line)) == {}
    # Both functions exist, and share the line.
    assert stack((name, path, line), ("<module>", path, line)) == {}


def test_code_executed_under_another_files_name_has_no_line(code: str, tmp_path: Path) -> None:
    other = written(tmp_path / "other.py", "first\nsecond\n")
    # A file executes a string under its own name, and another file's name.
    assert stack(("<module>", code, 3), ("<module>", code, 4)) == {code: {"4": "last"}}
    assert stack(("<module>", other, 1), ("", "", 0), ("run", code, 3)) == {}
    assert stack(("<module>", other, 1), ("<module>", "<string>", 1)) == {}
    # Python itself runs a file, or imports it.
    for frozen in ("<frozen runpy>", "<frozen importlib._bootstrap>"):
        kept = stack(("<module>", other, 2), ("_call", frozen, 241), ("<module>", code, 4))
        assert kept == {other: {"2": "second"}, code: {"4": "last"}}


def test_code_compiled_from_the_file_has_its_lines(code: str) -> None:
    """Python itself names this code's frames after the file."""
    text = "\n\ndef made():\n    return sys._getframe()\n\n\nhere = made()\n"
    names: dict[str, Any] = {"sys": sys}
    exec(compile(text, code, "exec"), names)
    frames, at = [], names["here"]
    while at is not None:
        frames.append((at.f_code.co_name, at.f_code.co_filename, at.f_lineno))
        at = at.f_back
    assert [name for name, *_ in frames[:2]] == ["made", "<module>"]
    assert code not in stack(*frames)


def test_line_of_a_cell_with_a_magic_is_kept(tmp_path: Path) -> None:
    name = "/tmp/ipykernel_114/77.py"
    linecache.cache[name] = 9, None, ["%time\n", "y = model(x)\n"], name
    assert stack(("<module>", name, 2), ("run_code", "<frozen x>", 1)) == {
        name: {"2": "y = model(x)"}
    }


def test_libraries_are_left_out(code: str, tmp_path: Path) -> None:
    assert kept((code, 1), libraries=(str(tmp_path),)) == {}
    assert kept((f"{PACKAGE}texts.py", 1)) == {}  # memreplay's own
    folders = library_folders("/opt/torch")
    assert is_library(os.__file__, folders)
    assert is_library(pytest.__file__, folders)
    assert is_library("/opt/torch/nn/modules/module.py", folders)
    assert is_library("/other/lib/python3.9/dist-packages/a.py", folders)
    assert is_library("<frozen runpy>", folders)
    assert not is_library(code, folders)
    # Without a folder, torch doesn't make any file a library.
    assert not is_library(code, library_folders(""))


def test_file_changed_since_the_process_started_is_left_out(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kept((code, 1)) == {code: {"1": "import torch"}}
    # A file with an old time may have replaced another.
    monkeypatch.setattr(source_lines, "process_began", lambda: time.time() - 60)
    assert kept((code, 1)) == {}
    os.utime(code)
    assert kept((code, 1)) == {}


def test_process_start_time_is_known_or_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < process_began() <= time.time()
    if sys.platform == "linux":
        assert process_began() < source_lines.LOADED
        # It doesn't move.
        assert abs(process_began() - process_began()) < 0.1
    monkeypatch.delattr(os, "sysconf")  # like on Windows
    assert process_began() == source_lines.LOADED


@pytest.mark.parametrize(
    "name, found",
    [
        ("/tmp/ipykernel_114/3105878423.py", True),
        ("<ipython-input-5-0123456789ab>", True),
        ("/root/.ipykernel/114/command-5-1", True),
        ("<eval_with_key>.7", False),  # created by torch.fx
        ("<string>", False),  # one of any number of evaluated strings
    ],
)
def test_lines_of_notebook_cells_are_kept(name: str, found: bool) -> None:
    linecache.cache[name] = 9, None, ["y = model(x)\n"], name
    assert kept((name, 1)) == ({name: {"1": "y = model(x)"}} if found else {})


@pytest.mark.parametrize("name", ["", "??", "/no/such/file.py", "a\0b.py", "train.py\n", None, 7])
def test_names_that_are_not_files_have_no_lines(name: Any) -> None:
    assert kept((name, 1)) == {}


def test_only_python_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = written(tmp_path / "secrets.txt", "password\n")
    assert kept((other, 1)) == {}
    broken = written(tmp_path / "broken.py", "")
    Path(broken).write_bytes(b"\xff\xfe\x00 = 1\n")
    os.utime(broken, (1, 1))
    assert kept((broken, 1)) == {}
    # A script needs no suffix.
    monkeypatch.setattr(sys.modules["__main__"], "__file__", other, raising=False)
    assert kept((other, 1)) == {other: {"1": "password"}}


def test_long_lines_are_cut(tmp_path: Path) -> None:
    path = written(tmp_path / "long.py", f"x = {'1' * 10_000}\n")
    (line,) = kept((path, 1))[path].values()
    assert line == f"x = {'1' * 196}"


def test_number_of_lines_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "many.py", "".join(f"x = {i:>6}\n" for i in range(100)))
    places = [(path, i + 1) for i in range(100)]
    assert len(kept(*places)[path]) == 100
    monkeypatch.setattr(source_lines, "MOST_LINES", 7)
    assert len(kept(*places)[path]) == 7
    monkeypatch.setattr(source_lines, "MOST_LINES", 1000)
    # Room for three complete lines and half of the next.
    monkeypatch.setattr(source_lines, "MOST_BYTES", len(path) + 35)
    assert len(kept(*places)[path]) == 3


# ---- the recorder


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch, code: str) -> Torch:
    made = Torch()
    made.__file__ = "/opt/torch/__init__.py"
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setattr(session, "_observing", [])
    made.memory.made = SnapshotBuilder().alloc(512, 512, frames=[("<module>", code, 3)])
    return made


def notes(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = pickle.loads(path.read_bytes())["memreplay"]
    return found


def test_lines_are_kept_only_on_request(torch: Torch, tmp_path: Path, code: str) -> None:
    for source in (False, True):
        path = tmp_path / f"{source}.pickle"
        with Recorder(path, source=source, quiet=True):
            pass
        lines = {code: {"3": "x = torch.empty(3)  # é"}}
        assert notes(path).get("source_lines") == (lines if source else None)
    (frame,) = mr.open(path).stack(1)
    assert frame.source == "x = torch.empty(3)  # é"


def test_errors_while_reading_lines_do_not_reach_the_program(
    torch: Torch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("of linecache")

    monkeypatch.setattr(linecache, "getlines", fails)
    path = tmp_path / "snap.pickle"
    with Recorder(path, source=True, quiet=True):
        pass
    assert "source_lines" not in notes(path)
    assert notes(path)["failures"] == [
        {
            "doing": "reading lines of source code",
            "error": "ZeroDivisionError: of linecache",
            "count": 1,
        }
    ]

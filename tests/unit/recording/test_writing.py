"""Tests of recording/writing.py: the files' names, and their contents; a file is complete or
doesn't exist.
"""

from __future__ import annotations

import errno
import gzip
import os
import pickle
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

import memreplay as mr
from memreplay.engine.record import _tracker
from memreplay.errors import MemreplayError, UsageError
from memreplay.io.whole import Whole
from memreplay.recording.facts import RANKS
from memreplay.recording.writing import (
    LARGE_BYTES,
    NEVER,
    Replacing,
    beside,
    boundaries,
    checked,
    free_name,
    moved,
    noted,
    own_path,
    write,
    write_anywhere,
)
from tests import build
from tests.build import SnapshotBuilder

ALWAYS = Replacing(True)


def test_free_name_has_the_next_number(tmp_path: Path) -> None:
    path = str(tmp_path / "snap.pickle")
    assert free_name(path) == path
    for number in (1, 2, 3):
        Path(free_name(path)).touch()
        assert free_name(path) == str(tmp_path / f"snap-{number}.pickle")


@pytest.mark.parametrize(
    "path, name",
    [
        ("snap.pickle", "snap.oom.pickle"),
        ("a.b/snap.v1.pkl.gz", "a.b/snap.v1.oom.pkl.gz"),
        ("SNAP.PICKLE.ZST", "SNAP.oom.PICKLE.ZST"),
        ("snap", "snap.oom"),
        ("snap.bin.xz", "snap.oom.bin.xz"),
        (".pickle", ".oom.pickle"),
    ],
)
def test_related_file_has_a_suffix_before_its_extension(path: str, name: str) -> None:
    assert beside(path, ".oom") == name


def test_file_name_contains_the_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (name for names in RANKS for name in names):
        monkeypatch.delenv(name, raising=False)
    assert (own_path("a.pickle"), own_path("a{rank}.pickle")) == ("a.pickle", "a0.pickle")
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert own_path("a.pickle.gz") == "a.rank3.pickle.gz"
    assert own_path("a{rank}.pickle") == "a3.pickle"
    assert own_path("a.pickle", (1, 2)) == "a.rank1.pickle"  # PyTorch's process group knows better
    monkeypatch.delenv("RANK")
    assert own_path("a.pickle") == "a.rank0.pickle"
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.setenv("SLURM_PROCID", "5")
    monkeypatch.setenv("SLURM_NTASKS", "8")
    assert own_path("a.pickle") == "a.rank5.pickle"


def test_json_names_and_missing_folders_are_refused(tmp_path: Path) -> None:
    assert checked(str(tmp_path / "snap.pickle.gz")) == str(tmp_path / "snap.pickle.gz")
    with pytest.raises(
        UsageError, match=": snapshots are pickles; memreplay export converts them to JSON"
    ):
        checked(str(tmp_path / "snap.json"))
    with pytest.raises(UsageError, match="no such folder"):
        checked(str(tmp_path / "gone" / "snap.pickle"))


def test_file_is_complete_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "snap.pickle.gz"
    name, size, _ = write(str(path), {"a": 1}, replacing=NEVER)
    assert (name, size) == (str(path), path.stat().st_size)
    assert pickle.loads(gzip.decompress(path.read_bytes())) == {"a": 1}
    # An existing file is left alone unless asked to replace it.
    name = write(str(path), {"a": 2}, replacing=NEVER).name
    assert name == str(tmp_path / "snap-1.pickle.gz")
    assert pickle.loads(gzip.decompress(path.read_bytes())) == {"a": 1}
    assert write(str(path), {"a": 3}, replacing=ALWAYS)[0] == str(path)
    assert pickle.loads(gzip.decompress(path.read_bytes())) == {"a": 3}
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        write(str(path), {"a": lambda: None}, replacing=ALWAYS)
    with pytest.raises(MemreplayError, match="the snapshot is lost"):
        write(str(tmp_path / "gone" / "x.pickle"), {}, replacing=ALWAYS)
    assert sorted(os.listdir(tmp_path)) == ["snap-1.pickle.gz", "snap.pickle.gz"]


def test_file_always_uses_protocol_4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python 3.14 writes protocol 5, which PyTorch's hosted viewer can't read.
    dump = pickle.dump

    def newest(value: object, out: BinaryIO, protocol: int = 5) -> None:
        dump(value, out, protocol)

    monkeypatch.setattr(pickle, "dump", newest)
    path = write(str(tmp_path / "snap.pkl"), {}, replacing=ALWAYS).name
    assert Path(path).read_bytes()[:2] == b"\x80\x04"


def test_leftovers_of_a_killed_program_are_removed_by_the_next(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from memreplay.recording import writing\n"
        "def dump(value, out, protocol):\n"
        "    out.write(b'half'); out.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "writing.pickle.dump = dump\n"
        "writing.write(sys.argv[1], {}, replacing=writing.Replacing(True))"
    )
    path = tmp_path / "snap.pickle"
    path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 2
    assert path.read_bytes() == b"old"
    write(str(path), {"a": 1}, replacing=ALWAYS)
    assert os.listdir(tmp_path) == ["snap.pickle"]


def test_existing_file_is_kept_on_a_disk_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError

    monkeypatch.setattr("memreplay.io.whole.os.link", none)
    (tmp_path / "snap.pickle").write_bytes(b"old")
    (tmp_path / "part").write_bytes(b"new")
    name = moved(str(tmp_path / "part"), str(tmp_path / "snap.pickle"), replacing=NEVER)
    assert name == str(tmp_path / "snap-1.pickle")
    assert Path(name).read_bytes() == b"new"
    assert (tmp_path / "snap.pickle").read_bytes() == b"old"
    assert stat.S_ISREG(os.lstat(name).st_mode)


def at(*times: int) -> list[dict[str, Any]]:
    return [{"action": "alloc", "time_us": time} for time in times]


@pytest.mark.parametrize(
    "times, steps, keep, found",
    [
        ((10, 20, 30), (), 99, []),
        ((), (5,), 99, []),
        ((10, 20, 30), (20, 35), 99, [0, 2, 3]),
        ((10, 20, 30), (25, 25), 99, [0, 2, 2]),
        # With a full ring buffer, some steps ended before the first event, so no step starts there.
        ((10, 20, 30), (5, 20), 99, [2]),
        ((10, 20, 30), (20,), 3, [2]),
        ((10, 20, 30), (1, 2), 3, []),
    ],
)
def test_step_boundaries_are_positions_in_the_trace(
    times: tuple[int, ...], steps: tuple[int, ...], keep: int, found: list[int]
) -> None:
    assert boundaries(at(*times), steps, keep) == found


@given(
    st.lists(st.integers(1, 99), min_size=1, max_size=9).map(sorted),
    st.lists(st.integers(1, 99), max_size=5).map(sorted),
)
def test_boundaries_are_event_counts(times: list[int], steps: list[int]) -> None:
    found = boundaries(at(*times), steps, 1_000)
    counts = [sum(time <= step for time in times) for step in steps]
    assert [one for one in found if one] == [one for one in counts if one]
    assert found.count(0) <= 1


def test_notes_round_trip() -> None:
    _tracker.begin(1 << 62)
    try:
        _tracker.mark(0x3000, _tracker.PARAMETER, 1)
        _tracker.enter(2)
        _tracker.track_alloc(0x1000)
        _tracker.leave(2)
        _tracker.track_free(0x3000)
        builder = SnapshotBuilder().alloc(0x1000, 64, time_us=0).free(0x3000, 8)
        whole = builder.finish_segments().build()
        for event in whole["device_traces"][0]:
            event.pop("time_us")
        names = ["", "GPT", "GPT.0"]
        whole["memreplay"] = noted(whole["device_traces"], _tracker.noted(), names, [], 1_000)
    finally:
        _tracker.end()
    snap = mr.open(build.dump(whole))
    recorded = snap.recorded
    assert recorded is not None, snap.recorded_flaw

    def spelled(kind: int) -> tuple[str, str, str]:
        category, phase, module = (column[kind] for column in recorded.kinds)
        return (
            recorded.categories[category],
            recorded.phases[phase],
            recorded.modules[module],
        )

    replay = snap.replay(0)
    (event, *_) = recorded.of_events(replay).tolist()
    (block,) = recorded.of_carried(replay).tolist()
    assert spelled(event) == ("activations", "forward", "GPT.0")
    assert spelled(block) == ("parameters", "before the recording", "GPT")


@pytest.mark.parametrize("size, name", [(100, "snap.pickle"), (LARGE_BYTES, "snap.pickle.gz")])
def test_large_snapshot_is_compressed(tmp_path: Path, size: int, name: str) -> None:
    value = {"a": b"x" * size, "b": [1, 2]}
    found = write(str(tmp_path / "snap.pickle"), value, replacing=ALWAYS, packs=True)
    assert found == (str(tmp_path / name), (tmp_path / name).stat().st_size, "")
    data = (tmp_path / name).read_bytes()
    assert pickle.loads(gzip.decompress(data) if name.endswith(".gz") else data) == value
    # Without an existing file being replaced, the next one gets another name.
    other = write(str(tmp_path / "snap.pickle"), value, replacing=NEVER, packs=True)
    assert other.name == str(tmp_path / name.replace("snap", "snap-1"))
    # A name that the user chose doesn't change.
    named = write(str(tmp_path / "own.pickle"), value, replacing=ALWAYS)
    assert named.name == str(tmp_path / "own.pickle")


class Limited:
    """A file system whose folders have errors."""

    def __init__(self, errors: dict[str, int]) -> None:
        self.errors, self.begin = errors, Whole.begin

    def opened(self, whole: Whole) -> BinaryIO:
        for name, number in self.errors.items():
            if whole.path.endswith(name):
                raise OSError(number, os.strerror(number))
        return self.begin(whole)

    def patched(self) -> Callable[[Whole], BinaryIO]:
        """Return a replacement of `Whole.begin`, which has to be a function."""

        def begin(whole: Whole) -> BinaryIO:
            return self.opened(whole)

        return begin


@pytest.mark.parametrize(
    "errors, name, why",
    [
        ({"own/snap.pickle": errno.ENOSPC}, "own/snap.pickle.gz", "No space left on device"),
        (
            {"own/snap.pickle": errno.ENOSPC, "own/snap.pickle.gz": errno.ENOSPC},
            "tmp/snap.pickle.gz",
            "No space left on device",
        ),
        ({"own/snap.pickle": errno.EROFS}, "tmp/snap.pickle.gz", "Read-only file system"),
        ({"own/snap.pickle": errno.EACCES}, "tmp/snap.pickle.gz", "Permission denied"),
    ],
)
def test_snapshot_is_written_elsewhere_if_it_must_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, errors: dict[str, int], name: str, why: str
) -> None:
    for folder in ("own", "tmp"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    limited = Limited(errors).patched()
    monkeypatch.setattr(Whole, "begin", limited)
    path = str(tmp_path / "own" / "snap.pickle")
    found = write_anywhere(path, {"a": 1}, replacing=ALWAYS)
    assert found == (str(tmp_path / name), (tmp_path / name).stat().st_size, why)
    assert pickle.loads(gzip.decompress((tmp_path / name).read_bytes())) == {"a": 1}
    # Files in the folder for temporary files are never replaced: it belongs to everyone.
    again = write_anywhere(path, {"a": 2}, replacing=ALWAYS).name
    assert again == str(tmp_path / name.replace("snap", "snap-1"))


def test_snapshot_is_lost_if_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = Limited({"": errno.ENOSPC}).patched()
    monkeypatch.setattr(Whole, "begin", limited)
    with pytest.raises(MemreplayError, match="No space left on device; the snapshot is lost"):
        write_anywhere(str(tmp_path / "snap.pickle"), {}, replacing=ALWAYS)


def test_snapshot_is_written_to_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = MemoryFileSystem()
    url = checked("memory://runs/snap.pickle")
    names = [write(url, {"a": n}, replacing=NEVER).name for n in range(2)]
    assert names == [url, "memory://runs/snap-1.pickle"]
    assert write(url, {"a": 2}, replacing=ALWAYS).name == url
    found = {one: pickle.loads(store.cat(one))["a"] for one in store.find("/runs")}
    assert found == {"/runs/snap.pickle": 2, "/runs/snap-1.pickle": 1}
    assert os.listdir(tmp_path) == []

    def refuse(*_: object) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(MemoryFileSystem, "put_file", refuse)
    elsewhere = write_anywhere(url, {"a": 3}, replacing=ALWAYS)
    assert elsewhere.name == str(tmp_path / "snap.pickle")
    assert "no" in elsewhere.why
    with pytest.raises(MemreplayError, match=r"the snapshot is in .*snap-1\.pickle"):
        write(url, {"a": 3}, replacing=ALWAYS)
    with pytest.raises(UsageError, match="doesn't name a file"):
        checked("memory://runs/")


@pytest.mark.parametrize("late", [False, True])
def test_only_files_from_before_are_replaced(tmp_path: Path, late: bool) -> None:
    """Of several processes with one name for their files, none replaces another's."""
    path = tmp_path / "snap.pickle"
    path.write_bytes(b"old")
    since = path.stat().st_mtime_ns + (-1 if late else 1)
    found = write(str(path), {"a": 1}, replacing=Replacing(True, since))
    assert found.name == str(tmp_path / ("snap-1.pickle" if late else "snap.pickle"))
    path.unlink()
    assert write(str(path), {"a": 2}, replacing=Replacing(True, since)).name == str(path)

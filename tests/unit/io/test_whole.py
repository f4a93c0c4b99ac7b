"""Tests of io/whole.py: a file is renamed when complete; leftovers of dead writers are removed."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from memreplay.io import whole
from memreplay.io.whole import LOCK, Whole, mode_of, part_name, remove_stale, whole_file

fcntl = pytest.importorskip("fcntl")
NOW = 1_800_000_000.0
DAY_S = 86_400
OURS = part_name()
THEIRS = ".memreplay-12345678-0123456789ab.part"
EARLIER = ".memreplay-0123456789ab.part"  # names used by older versions


def put(path: Path, age_s: float = 0) -> Path:
    path.write_bytes(b"half")
    os.utime(path, (NOW - age_s, NOW - age_s))
    return path


def left(folder: Path) -> list[str]:
    remove_stale(str(folder), NOW)
    return sorted(os.listdir(folder))


def test_file_appears_only_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "out"
    with whole_file(path) as file:
        file.write(b"new")
        assert not path.exists()
        (part,) = tmp_path.iterdir()
        assert whole._PART.fullmatch(part.name)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out"]


def test_next_free_name_is_taken(tmp_path: Path) -> None:
    put(tmp_path / "out")
    one = Whole(tmp_path / "out")
    one.begin().write(b"new")
    left_names = [tmp_path / "out", tmp_path / "out-1"]  # another process took the first name
    assert one.finish(lambda: str(left_names.pop(0))) == str(tmp_path / "out-1")
    assert (tmp_path / "out").read_bytes() == b"half"
    assert (tmp_path / "out-1").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["out", "out-1"]


def test_one_of_many_writers_keeps_the_others_parts(tmp_path: Path) -> None:
    put(tmp_path / OURS)
    with whole_file(tmp_path / "out", many=True, sweeps=False) as file:
        file.write(b"new")
    assert sorted(os.listdir(tmp_path)) == [OURS, "out"]
    with whole_file(tmp_path / "out", many=True) as file:
        file.write(b"new")
    assert os.listdir(tmp_path) == ["out"]


def test_error_keeps_the_old_file(tmp_path: Path) -> None:
    path = put(tmp_path / "out")
    with pytest.raises(ZeroDivisionError), whole_file(path) as file:
        file.write(b"%d" % (1 // 0))
    assert path.read_bytes() == b"half"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("name", ["fsync", "replace", "dup"])
def test_disk_error_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    path = put(tmp_path / "out")
    monkeypatch.setattr(os, name, fail)
    with pytest.raises(OSError, match="Input/output"), whole_file(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"half"
    assert os.listdir(tmp_path) == ["out"]


def test_first_error_is_raised_even_if_cleanup_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "unlink", fail)
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "out"):
        raise ZeroDivisionError


def test_new_file_is_synced_before_it_replaces_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    real = os.replace
    monkeypatch.setattr(os, "fsync", lambda number: seen.append(f"{os.fstat(number).st_size}"))

    def replace(source: str, target: str) -> None:
        seen.append("replaced")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    for _ in range(2):
        with whole_file(tmp_path / "out") as file:
            file.write(b"12345")
    assert seen == ["replaced", "5", "replaced"]


def test_file_is_written_if_fsync_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    path = put(tmp_path / "out")
    monkeypatch.setattr(os, "fsync", fail)
    with whole_file(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


def test_no_file_stays_open(tmp_path: Path) -> None:
    before = os.listdir("/dev/fd")
    with whole_file(tmp_path / "out"):
        pass
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "out"):
        raise ZeroDivisionError
    assert os.listdir("/dev/fd") == before


# ---- dead writers' leftovers ---------------------------------------------------------------------

WRITER = """
import sys
from memreplay.io.whole import Whole
whole = Whole(sys.argv[1])
whole.begin().write(b"half")
print("on", flush=True)
sys.stdin.read()
"""


def test_part_is_removed_with_its_writer_and_not_before(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "out")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"on\n"
        (part,) = os.listdir(tmp_path)
        assert part.startswith(OURS[:20])
        for age_s in (0, 30 * DAY_S):
            os.utime(tmp_path / part, (NOW - age_s, NOW - age_s))
            assert left(tmp_path) == [part]
        with whole_file(tmp_path / "other"):  # another writer doesn't remove it either
            pass
        assert sorted(os.listdir(tmp_path)) == [part, "other"]
        writer.send_signal(signal.SIGKILL)
        writer.wait(60)
    with whole_file(tmp_path / "out"):
        pass
    assert sorted(os.listdir(tmp_path)) == ["other", "out"]


def test_parts_of_other_machines_and_versions_are_removed_after_a_week(tmp_path: Path) -> None:
    for name in (THEIRS, EARLIER):
        put(tmp_path / name, 6 * DAY_S)
    assert left(tmp_path) == [EARLIER, THEIRS]
    held = os.open(put(tmp_path / THEIRS, 8 * DAY_S), os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)  # on a disk that shares locks between machines
    put(tmp_path / EARLIER, 8 * DAY_S)
    assert left(tmp_path) == [THEIRS]
    os.close(held)
    assert left(tmp_path) == []


def test_parts_are_removed_after_a_week_if_the_boot_time_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole, "_boot", lambda: whole._UNKNOWN)
    part = put(tmp_path / part_name(), 6 * DAY_S)
    assert left(tmp_path) == [part.name]
    put(part, 8 * DAY_S)
    assert left(tmp_path) == []


@pytest.mark.parametrize("without", ["a module", "locks"])
def test_parts_are_removed_after_a_week_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without: str
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    if without == "locks":
        monkeypatch.setattr(fcntl, "flock", fail)
    else:
        monkeypatch.setitem(sys.modules, "fcntl", None)
    with whole_file(tmp_path / "out"):
        pass
    put(tmp_path / OURS, 6 * DAY_S)
    assert left(tmp_path) == [OURS, "out"]
    put(tmp_path / OURS, 8 * DAY_S)
    assert left(tmp_path) == ["out"]


def test_only_this_machines_writers_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / OURS)
    put(tmp_path / THEIRS, 30 * DAY_S)
    real = os.lstat
    seen: list[str] = []

    def lstat(path: str) -> os.stat_result:
        seen.append(os.path.basename(path))
        return real(path)

    monkeypatch.setattr(os, "lstat", lstat)
    one = Whole(tmp_path / "out", many=True)
    one.begin()
    one.finish()
    assert THEIRS not in seen
    assert sorted(os.listdir(tmp_path)) == [THEIRS, "out"]


def test_other_files_are_kept(tmp_path: Path) -> None:
    names = [
        f"{OURS}x",
        f"x{OURS}",
        ".memreplay-1.part",
        "out.part",
        ".memreplay-12345678-0123456789abc.part",
        ".memreplay-XYZ.part",
    ]
    for name in names:
        put(tmp_path / name, 30 * DAY_S)
    (tmp_path / "elsewhere").write_bytes(b"")
    (tmp_path / OURS).symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / THEIRS)
    assert left(tmp_path) == sorted([*names, "elsewhere", OURS, THEIRS])


def test_files_of_another_user_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / OURS, 30 * DAY_S)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert left(tmp_path) == [OURS]
    monkeypatch.undo()
    assert left(tmp_path) == []


def test_writer_takes_another_name_if_its_part_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part is removed after it was created and before it's locked."""
    real = fcntl.flock
    removed: list[str] = []

    def flock(number: int, how: int) -> None:
        if not removed:
            removed.extend(os.listdir(tmp_path))
            held = os.open(tmp_path / removed[0], os.O_RDWR)
            real(held, fcntl.LOCK_EX)
            os.unlink(tmp_path / removed[0])
            os.close(held)
        real(number, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with whole_file(tmp_path / "out") as file:
        file.write(b"new")
        assert os.listdir(tmp_path) != removed
    assert (tmp_path / "out").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out"]


def test_unlistable_folder_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "scandir", fail)
    with whole_file(tmp_path / "out"):
        pass


def test_folders_are_cleaned_up_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = tmp_path / OURS
    part.mkdir()
    (part / "new").mkdir()
    remove_stale(str(tmp_path), time.time())
    assert os.listdir(tmp_path) == [OURS]  # its lock may be about to be created
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda real=time.time: real() + 3700)
        remove_stale(str(tmp_path), None)
    assert os.listdir(tmp_path) == []
    part.mkdir()
    held = os.open(part / LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert left(tmp_path) == [OURS]
    os.close(held)
    assert left(tmp_path) == []
    theirs = tmp_path / THEIRS
    theirs.mkdir()
    remove_stale(str(tmp_path), time.time() + 6 * DAY_S)
    assert os.listdir(tmp_path) == [THEIRS]
    remove_stale(str(tmp_path), time.time() + 8 * DAY_S)
    assert os.listdir(tmp_path) == []


def test_undo_may_be_called_at_any_time(tmp_path: Path) -> None:
    one = Whole(tmp_path / "out")
    one.undo()
    one.begin()
    one.undo()
    one.undo()
    assert os.listdir(tmp_path) == []


# ---- existing files ------------------------------------------------------------------------------


def test_mode_of_a_path_is_none_if_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "file")
    link = tmp_path / "link"
    link.symlink_to("nowhere")
    assert mode_of(str(path)) == path.stat().st_mode
    assert mode_of(str(path / "below")) is None
    assert mode_of(str(link)) is None
    assert mode_of(str(link), follow_links=False) == link.lstat().st_mode

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "stat", fail)
    with pytest.raises(OSError, match="Input/output"):
        mode_of(str(path))


def test_names_of_parts_are_unique() -> None:
    names = {part_name() for _ in range(100)}
    assert len(names) == 100
    assert all(re.fullmatch(r"\.memreplay-[0-9a-f]{8}-[0-9a-f]{12}\.part", one) for one in names)

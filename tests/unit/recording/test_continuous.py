"""Tests of recording/continuous.py: when files are written, and which are kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memreplay.errors import UsageError
from memreplay.recording import continuous as module
from memreplay.recording.continuous import Continuous, Files, Rotation
from memreplay.recording.guarding import Guard
from memreplay.recording.ring import Ring
from tests.unit.recording.ring_buffer import Allocator

ENTRIES = 4000


class Program:
    """A program with a fake clock, and the files that its recording wrote."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **wanted: Any) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "time", lambda: self.now)
        self.allocator = Allocator(ENTRIES)
        self.ring = Ring(self.allocator, ENTRIES, self.allocator.clear)
        asked = Continuous.asked(wanted or True)
        assert asked is not None
        self.files = Files(lambda: str(folder / "snap.pickle"), asked.keep, asked.keep_size)
        self.fails = False
        self.bytes_per_event = 200
        self.wrote: list[str] = []
        self.rotation = Rotation(self.ring, self.files, asked, self.write)

    def write(self, path: str) -> str | None:
        found = self.ring.snapshot()
        self.ring.cut(found)
        traces = found["device_traces"]
        if not self.fails:
            self.wrote.append(Path(path).name)
            events = sum(event["action"] != "snapshot" for event in traces[0])
            Path(path).write_bytes(b"." * (events * self.bytes_per_event))
        return None if self.fails else path

    def step(self, size: int = 100, seconds: float = 1.0, ops: int = 1) -> None:
        """Run one step that takes this long, and holds this many bytes at its peak."""
        for _ in range(ops):
            self.allocator.free(0, self.allocator.alloc(0, size))
        self.now += seconds
        self.rotation.stepped()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Program]:
    return lambda **wanted: Program(tmp_path, monkeypatch, **wanted)


def test_files_are_written_by_the_clock(program: Callable[..., Program]) -> None:
    run = program(seconds=60, peak_percent=None)
    for _ in range(200):
        run.step()
    # 1000 to 1200 seconds contain 1020, 1080, 1140 and 1200.
    assert run.wrote == [f"snap.window-{number:06}.pickle" for number in (1, 2, 3, 4)]


def test_nothing_is_written_while_nothing_happens(program: Callable[..., Program]) -> None:
    run = program(seconds=60, peak_percent=None)
    for _ in range(200):
        run.step(ops=0)
    assert run.wrote == []
    path = run.rotation.rotate()
    assert run.wrote == [Path(path).name]
    assert run.rotation.rotate() == path  # the same file, because nothing happened
    assert len(run.wrote) == 1


def test_files_are_written_by_size(program: Callable[..., Program]) -> None:
    run = program(size=30_000, seconds=1e9, peak_percent=None)
    for _ in range(60):
        run.step(ops=10)
    # Five steps of 30 events of 200 bytes each.
    assert len(run.wrote) == 12
    run.bytes_per_event = 100  # after one more file of 150 events, this is known
    for _ in range(65):
        run.step(ops=10)
    assert len(run.wrote) == 12 + 1 + 6


def test_new_maximum_is_written_once_it_stops_rising(program: Callable[..., Program]) -> None:
    run = program(seconds=1e9, peak_percent=2)
    for size in (100, 200, 300):
        run.step(size)
    assert run.wrote == []
    run.step(300)
    assert run.wrote == ["snap.window-000001-peak.pickle"]
    for size in (305, 300, 300):  # 1.7% more
        run.step(size, seconds=20)
    assert len(run.wrote) == 1
    for size in (306, 300, 300):
        run.step(size, seconds=20)
    assert run.wrote[1:] == ["snap.window-000002-peak.pickle"]


def test_peaks_files_do_not_follow_too_closely(program: Callable[..., Program]) -> None:
    run = program(seconds=1e9)
    for size in range(100, 1000, 100):
        run.step(size, seconds=0.2)
        run.step(size, seconds=0.2)
    assert len(run.wrote) == 1
    run.step(100, seconds=module.PEAK_GAP)
    assert len(run.wrote) == 2


def test_peak_is_not_written_once_its_events_are_gone(program: Callable[..., Program]) -> None:
    run = program(seconds=1e9)
    run.step(100)
    run.step(100)
    run.step(1000, seconds=0.2)
    run.step(100, seconds=0.2, ops=ENTRIES)
    run.step(100, seconds=60)
    assert len(run.wrote) == 1
    run.step(1030, seconds=1)
    run.step(1030, seconds=1)
    assert len(run.wrote) == 2


def test_files_wait_for_the_end_of_a_step(program: Callable[..., Program]) -> None:
    run = program(seconds=600)
    run.step(seconds=100)
    run.allocator.alloc(0, 1)
    run.now += 101
    run.rotation.watched()
    assert run.wrote == []  # such steps take about 100 seconds
    run.rotation.stepped()
    assert len(run.wrote) == 1


def test_programs_without_steps_get_files(program: Callable[..., Program]) -> None:
    run = program(seconds=60, peak_percent=None)
    for _ in range(100):
        run.allocator.free(0, run.allocator.alloc(0, 1))
        run.now += 1
        run.rotation.watched()
    assert len(run.wrote) == 2


def test_urgent_peak_does_not_wait_for_the_end_of_a_step(program: Callable[..., Program]) -> None:
    run = program(seconds=1e9)
    run.rotation.stepped()
    run.allocator.alloc(0, 1000)
    for _ in range(20):
        for _ in range(ENTRIES // 20):
            run.allocator.free(0, run.allocator.alloc(0, 1))
        run.now += 0.1
        run.rotation.watched()
    assert len(run.wrote) == 1


def test_lost_file_does_not_stop_the_recording(program: Callable[..., Program]) -> None:
    run = program(seconds=60, peak_percent=None)
    run.fails = True
    for _ in range(100):
        run.step()
    assert run.wrote == []
    run.fails = False
    for _ in range(60):
        run.step()
    assert run.wrote == ["snap.window-000001.pickle"]
    written = run.rotation.path
    run.fails = True
    run.allocator.alloc(0, 100)
    assert run.rotation.rotate() == written


def test_thread_looks_and_ends(
    program: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "INTERVAL", 0.001)
    run = program(seconds=60)
    looked = []
    monkeypatch.setattr(run.rotation, "watched", lambda: looked.append(1))
    run.rotation.start(Guard())
    while not looked:
        pass
    thread = run.rotation.thread
    assert thread is not None
    assert thread.daemon
    run.rotation.stop()
    assert not thread.is_alive()


def test_recording_can_end_while_a_file_is_being_written(
    program: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "INTERVAL", 0.001)
    run = program(seconds=60)
    looking = threading.Event()
    watched = run.rotation.watched

    def told() -> None:
        looking.set()
        watched()

    monkeypatch.setattr(run.rotation, "watched", told)
    with run.rotation.lock:  # as when SIGTERM interrupts the thread that is writing
        run.rotation.start(Guard())
        assert looking.wait(10)
        stopping = threading.Thread(target=run.rotation.stop, daemon=True)
        stopping.start()
        stopping.join(10)
        assert not stopping.is_alive()


# --- files ----------------------------------------------------------------------------------------


def make(folder: Path, *names: str, size: int = 10) -> None:
    for name in names:
        (folder / name).write_bytes(b"." * size)


def left(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_numbers_continue_those_of_an_earlier_run(tmp_path: Path) -> None:
    files = Files(lambda: str(tmp_path / "snap.rank3.pickle.gz"), 10, None)
    assert files.next() == str(tmp_path / "snap.rank3.window-000001.pickle.gz")
    make(tmp_path, "snap.rank3.window-000041.pickle.gz", "snap.rank3.window-000042-oom.pickle.gz")
    make(tmp_path, "snap.rank4.window-000050.pickle.gz", "snap.rank3.window-50.pickle.gz", "x")
    assert files.next("peak") == str(tmp_path / "snap.rank3.window-000043-peak.pickle.gz")
    make(tmp_path, "snap.rank3.window-1000000.pickle.gz")
    assert files.next("oom").endswith("snap.rank3.window-1000001-oom.pickle.gz")


def test_oldest_files_are_deleted(tmp_path: Path) -> None:
    make(tmp_path, "snap.window-000001-peak.pickle", "snap.window-000002-oom.pickle")
    make(tmp_path, "snap.window-000003-peak.pickle", "other.pickle", "snap.oom.pickle")
    make(tmp_path, *(f"snap.window-{number:06}.pickle" for number in range(4, 9)))
    Files(lambda: str(tmp_path / "snap.pickle"), 4, None).prune()
    assert left(tmp_path) == [
        "other.pickle",
        "snap.oom.pickle",
        "snap.window-000002-oom.pickle",  # memory ran out
        "snap.window-000003-peak.pickle",  # the highest peak
        "snap.window-000007.pickle",
        "snap.window-000008.pickle",
    ]


def test_program_that_always_runs_out_does_not_fill_the_disk(tmp_path: Path) -> None:
    for number in range(1, 20, 2):
        make(tmp_path, f"snap.window-{number:06}-oom.pickle", f"snap.window-{number + 1:06}.pickle")
        Files(lambda: str(tmp_path / "snap.pickle"), 2, None).prune()
    assert left(tmp_path) == [
        "snap.window-000017-oom.pickle",
        "snap.window-000019-oom.pickle",
        "snap.window-000020.pickle",
    ]


def test_files_are_limited_by_size_but_the_newest_stays(tmp_path: Path) -> None:
    make(tmp_path, *(f"snap.window-{number:06}.pickle" for number in range(1, 6)))
    Files(lambda: str(tmp_path / "snap.pickle"), 100, 25).prune()
    assert left(tmp_path) == ["snap.window-000004.pickle", "snap.window-000005.pickle"]
    Files(lambda: str(tmp_path / "snap.pickle"), 100, 1).prune()
    assert left(tmp_path) == ["snap.window-000005.pickle"]


def test_users_own_words_in_a_name_mean_nothing(tmp_path: Path) -> None:
    numbers = range(1, 6)
    make(tmp_path, *(f"before-oom.window-{number:06}.pickle" for number in numbers))
    Files(lambda: str(tmp_path / "before-oom.pickle"), 2, None).prune()
    assert left(tmp_path) == [f"before-oom.window-{number:06}.pickle" for number in (4, 5)]


def test_missing_folder_is_no_error(tmp_path: Path) -> None:
    files = Files(lambda: str(tmp_path / "gone" / "snap.pickle"), 1, None)
    files.prune()
    assert files.next().endswith("snap.window-000001.pickle")


# --- options --------------------------------------------------------------------------------------


def test_numbers_can_be_changed() -> None:
    assert Continuous.asked(False) is None
    assert Continuous.asked(True) == Continuous()
    assert Continuous.asked({"keep": 3, "peak_percent": None}) == Continuous(
        keep=3, peak_percent=None
    )


@pytest.mark.parametrize(
    "asked, words",
    [
        ({"often": 1}, "continuous: unknown often; known: seconds, size, keep"),
        ({"keep": 0}, "keep must be a whole number above 0"),
        ({"keep": 1.5}, "keep must be a whole number above 0"),
        ({"keep": True}, "keep must be a whole number above 0"),
        ({"keep": None}, "keep must be a whole number above 0"),
        ({"seconds": "60"}, "seconds must be a number above 0"),
        ({"seconds": -1}, "seconds must be a number above 0"),
        ({"size": 1.5}, "size must be a whole number above 0"),
    ],
)
def test_wrong_numbers_are_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Continuous.asked(asked)

"""Opening thousands of files in one process doesn't leak memory, descriptors or threads.

MEMREPLAY_OPENS sets how often each action is repeated: 10,000 times in the full run, a few hundred
times by default.
"""

from __future__ import annotations

import gc
import gzip
import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import memreplay as mr
from memreplay.io import container
from memreplay.snapshot import snapshot
from memreplay.snapshot.conversion import convert
from tests import build
from tests.build import SnapshotBuilder
from tests.fuzz.commands import questions
from tests.threads.asking import told

EXAMPLE = Path(__file__).parents[2] / "examples/cuda_graphs.pkl.gz"
OPENS = int(os.environ.get("MEMREPLAY_OPENS", "300"))
# Allowance for partly used heap pages. It depends neither on the file nor on the number of opens.
MARGIN = 2 << 20

Work = Callable[[], Any]

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="this system does not tell a process's memory"
)


def resident() -> int:
    """Return the bytes of memory in use."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def sanitized() -> bool:
    """Return whether a sanitizer is active, which keeps freed memory to detect its use."""
    return "san.so" in os.environ.get("LD_PRELOAD", "") or "TSAN_OPTIONS" in os.environ


def small(events: int = 400) -> dict[str, Any]:
    """Return a snapshot that contains everything that is read lazily."""
    builder = SnapshotBuilder()
    for n in range(events):
        frames = [(f"f{n % 40}", f"dir/{n % 7}.py", n % 90), ("main", "main.py", 3)]
        builder.alloc(0x10000 + 512 * n, 400 + n % 100, frames=frames)
        if n % 3:
            builder.free(0x10000 + 512 * n, 400 + n % 100, frames=frames)
    built: dict[str, Any] = builder.finish_segments().build()
    return built


def kinds(folder: Path) -> dict[str, Work]:
    """Return the repeated actions, by name."""
    plain = build.dump(small())
    path, packed = folder / "a.pkl", folder / "b.pkl.gz"
    path.write_bytes(plain)
    packed.write_bytes(gzip.compress(plain, 1))
    spelled = json.dumps(small(), default=list).encode()
    cuts = [len(plain) * n // 23 for n in range(1, 23)]
    counted = iter(range(1 << 30))

    def stop(_done: int, _total: int | None) -> None:
        raise KeyError

    def queries() -> None:
        snap = mr.open(path)
        usage = snap.replay().measure("active")
        assert usage.live_at(event=9).bytes
        assert usage.live_at(event=10).bytes
        assert usage.parts("stream", 20)
        assert usage.lifetimes.address.size
        assert mr.peak(snap, by="stack").devices

    def cut() -> None:
        at = cuts[next(counted) % len(cuts)]
        with pytest.raises(mr.SnapshotError):
            mr.open(plain[:at])
        told(lambda: mr.open(plain[:at], salvage=True).replay().peak)

    def broken() -> None:
        at = cuts[next(counted) % len(cuts)]
        told(lambda: mr.open(plain[:at] + b"\xff" + plain[at + 1 :]).replay().peak)

    def stopped() -> None:
        with pytest.raises(KeyError):
            mr.open(packed, progress=stop)

    def limited() -> None:
        with pytest.raises(mr.LimitError):
            mr.open(path, limits=mr.Limits(rows=200))

    return {
        "path": lambda: mr.open(path).replay().peak,
        "gzip": lambda: mr.open(packed).replay().peak,
        "bytes": lambda: mr.open(plain).replay().peak,
        "json": lambda: mr.open(spelled).replay().peak,
        "range": lambda: mr.open(path, start=100, stop=200).replay().peak,
        "queries": queries,
        "simulate": lambda: mr.open(path).replay().simulate("expandable_segments:True").outcome,
        "convert": lambda: convert(plain, lambda _piece: None, fmt="json"),
        "cut": cut,
        "broken": broken,
        "stopped": stopped,
        "limited": limited,
    }


NAMES = (
    *("path", "gzip", "bytes", "json", "range", "queries", "simulate", "convert"),
    *("cut", "broken", "stopped", "limited"),
)


@pytest.mark.parametrize("name", NAMES)
def test_memory_stays_flat(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    # The small file is read ahead as well, so a thread starts and ends each time.
    monkeypatch.setattr(snapshot, "several_cpus", lambda: True)
    monkeypatch.setattr(container, "SLOW_FROM", 1)
    work = kinds(tmp_path)[name]
    seen = []
    # With the garbage collector off, objects must be freed as soon as they're released.
    gc.disable()
    request.addfinalizer(gc.enable)
    for n in range(1, OPENS + 1):
        work()
        if n in (OPENS // 10, OPENS // 2, OPENS):
            seen.append((n, resident(), descriptors(), threading.active_count()))
    if OPENS > 1000:
        with capsys.disabled():
            told_of = ", ".join(f"{n:,}: {rss / 2**20:.1f} MiB" for n, rss, _, _ in seen)
            print(f"\n{name}: {told_of}")
    first, *others = seen
    for _, _, files, threads in others:
        assert (files, threads) == first[2:]
    if not sanitized():
        assert all(rss <= first[1] + MARGIN for _, rss, _, _ in others)


def test_every_repeated_action_is_listed(tmp_path: Path) -> None:
    assert tuple(kinds(tmp_path)) == NAMES


@pytest.mark.parametrize("dice", [0, 4097, 12345, 77777])
def test_reports_leave_no_reference_cycles(dice: int) -> None:
    def asked() -> None:
        snap = mr.open(gzip.decompress(EXAMPLE.read_bytes()))
        for one in questions(snap, dice):
            with suppress(mr.UsageError):
                report = one.report()
                one.text(report)
                one.as_json(report)

    asked()  # the first call creates objects that exist once per process
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        asked()
        gc.collect()
        left = {type(one) for one in gc.garbage if type(one).__module__.startswith("memreplay")}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert left == set()

"""Recordings of whole programs: samples, threads, processes, and programs that record themselves.
In dry runs, with a real torch, which ci/truth installs.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import memreplay as mr
from memreplay.fleets.naming import ranks_of_fleet
from memreplay.snapshot.recorded_memory import card_samples, host_use
from tests.conftest import ROOT
from tests.integration.dry import LONGEST, PYTHON, marks

pytestmark = marks

MIB = 1 << 20
MEMREPLAY = [sys.executable, "-m", "memreplay"]


def run(
    folder: Path, code: str, *, recorded: bool = False, exit_code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a program in a dry run. `recorded`: as `memreplay record` runs it. It ends with this exit
    code.
    """
    (folder / "program.py").write_text(code)
    (folder / "notes").mkdir()
    told = {
        "folder": str(folder / "notes"),
        "path": str(folder / "snapshot.pickle"),
        "pinned": True,
    }
    done = subprocess.run(
        [*MEMREPLAY, "dryrun", "-o", "dry.pickle", "--", PYTHON, "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
        env=os.environ
        | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}
        | ({"MEMREPLAY_RECORD": json.dumps(told)} if recorded else {}),
    )
    assert done.returncode == exit_code, done.stdout + done.stderr
    return done


BURSTS = """
import time
import torch
import memreplay
from memreplay.recording import memory_samples

memory_samples.SECONDS = 1000.0  # no sample by the clock
kept, bursts = [], []
with memreplay.record("snap.pickle"):
    torch.ones(1, device="cuda")
    for number in range(6):
        if number == 3:
            kept.clear()
            torch.cuda.empty_cache()
        else:
            kept += [torch.empty(64 << 20, dtype=torch.uint8, device="cuda") for _ in range(4)]
        bursts.append((time.time_ns() // 1000, torch.cuda.memory_reserved()))
        time.sleep(1.5)
print("bursts", bursts)
"""


def test_sample_follows_each_burst_of_segments(tmp_path: Path) -> None:
    done = run(tmp_path, BURSTS)
    line = next(line for line in done.stdout.splitlines() if line.startswith("bursts"))
    bursts = ast.literal_eval(line.removeprefix("bursts "))
    (card,) = card_samples(mr.open(tmp_path / "snap.pickle"))
    samples = list(zip(card.times_us, card.reserved_bytes, strict=True))
    for at, reserved in bursts:
        soon = [one for time_us, one in samples if at - 100_000 <= time_us <= at + 1_400_000]
        assert reserved in soon, (at, reserved, samples)
    # the first one, one for each burst, perhaps one in the middle of it, and the last one
    assert len(samples) <= 2 * len(bursts) + 2


ITSELF = """
import torch
import memreplay

x = torch.ones(1 << 20, dtype=torch.uint8, device="cuda")
with memreplay.record("own.pickle", model=torch.nn.Linear(2, 2, device="cuda")) as recorder:
    kept = torch.ones(1 << 20, dtype=torch.uint8, device="cuda")
    recorder.dump("now.pickle")
pinned = torch.empty(1 << 20).pin_memory()
more = torch.ones(1 << 20, dtype=torch.uint8, device="cuda")
"""


def test_dry_run_names_the_files_of_a_program_that_records_itself(tmp_path: Path) -> None:
    done = run(tmp_path, ITSELF)
    words = " ".join(done.stdout.split())
    files = f"{tmp_path / 'now.pickle'}, {tmp_path / 'own.pickle'}"
    assert f"recorded itself, and wrote {files}" in words


UNSTOPPED = """
import os
import torch
import memreplay

recorder = memreplay.record("own.pickle").start()
kept = torch.ones(1 << 20, dtype=torch.uint8, device="cuda")
os.unlink(recorder.dump("deleted.pickle"))
"""


def test_dry_run_names_the_files_that_exist_at_the_very_end(tmp_path: Path) -> None:
    words = " ".join(run(tmp_path, UNSTOPPED).stdout.split())
    path = tmp_path / "own.pickle"
    assert f"recorded itself, and wrote {path} {path} device 0: peak 1.0 MiB" in words


FAILS = """
import torch
import memreplay

with memreplay.record("own.pickle"):
    kept = []
    while True:
        kept.append(torch.ones(1 << 30, dtype=torch.uint8, device="cuda"))
"""


def test_dry_run_reports_the_moment_at_which_a_recorded_program_ran_out(tmp_path: Path) -> None:
    done = run(tmp_path, FAILS, exit_code=1)
    path = tmp_path / "own.pickle"
    assert not (tmp_path / "own.oom.pickle").exists()
    words = " ".join(done.stdout.split())
    assert f"recorded itself, and wrote {path} {path} device 0: " in words
    assert "request failed at event" in words


def test_program_that_records_itself_shares_the_recording(tmp_path: Path) -> None:
    done = run(tmp_path, ITSELF, recorded=True)
    said = [line for line in done.stderr.splitlines() if "is recording already" in line]
    assert len(said) == 1
    assert "Traceback" not in done.stderr
    counts = {
        name: mr.open(tmp_path / f"{name}.pickle").trace_events(0)
        for name in ("now", "own", "snapshot")
    }
    assert 0 < counts["now"] <= counts["own"] < counts["snapshot"]
    # Memory from before the program's own recording has a stack.
    assert mr.peak(tmp_path / "own.pickle").devices[0].peak_bytes >= 2 * MIB
    use = host_use(mr.open(tmp_path / "snapshot.pickle"))
    assert use is not None
    assert use.pinned_bytes == 4 * MIB
    assert use.pinned_events > 0
    assert "events of pinned memory" in str(mr.summary(tmp_path / "snapshot.pickle"))


def test_dry_run_measures_host_memory(tmp_path: Path) -> None:
    run(tmp_path, "import torch\nx = torch.ones(1, device='cuda')\n")
    use = host_use(mr.open(tmp_path / "dry.pickle"))
    assert use is not None
    assert use.resident_peak_bytes is not None
    assert use.resident_peak_bytes > 50 * MIB
    assert "host memory" in str(mr.summary(tmp_path / "dry.pickle"))


THREADS = """
import threading
import torch
import memreplay

torch.ones(1, device="cuda")
recorder = memreplay.record("snap.pickle")
for work in (recorder.start, recorder.stop):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if recorder.recording:
        with torch.profiler.record_function("of the main thread"):
            torch.ones(1, device="cuda")
recorder = memreplay.record("again.pickle").start()
thread = threading.Thread(target=recorder.stop)
thread.start()
thread.join()
"""


def test_recording_may_begin_and_end_in_other_threads(tmp_path: Path) -> None:
    done = run(tmp_path, THREADS)
    assert "callback" not in done.stderr
    assert (tmp_path / "again.pickle").exists()
    names = [one["name"] for one in mr.open(tmp_path / "snap.pickle").annotations]
    assert "of the main thread" in names


SPAWNED = """
import time
import torch
import memreplay

def work(rank, began):
    with memreplay.record():
        kept = torch.ones((rank + 1) << 20, dtype=torch.uint8, device="cuda")
        time.sleep(max(0, began + 20 - time.time()))

if __name__ == "__main__":
    open("snapshot.pickle", "w").close()  # an earlier run's
    torch.multiprocessing.start_processes(work, (time.time(),), nprocs=3, start_method="spawn")
"""


def test_processes_without_ranks_keep_each_others_files(tmp_path: Path) -> None:
    run(tmp_path, SPAWNED)
    names = sorted(path.name for path in tmp_path.glob("snapshot*.pickle"))
    assert names == ["snapshot-1.pickle", "snapshot-2.pickle", "snapshot.pickle"]
    ranks, _ = ranks_of_fleet(names, [None] * 3, None)
    assert sorted(one for one in ranks if one is not None) == [0, 1, 2]
    sizes = {mr.peak(tmp_path / name).devices[0].peak_bytes for name in names}
    assert sizes == {MIB, 2 * MIB, 3 * MIB}

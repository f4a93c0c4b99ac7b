"""Each program gets a path for its recording, and returns the truth about it."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

import memreplay
from memreplay.recording.recorder import Recorder

MEASURES = "requested", "allocated", "active", "reserved"
NEVER = 1e9


def start(path: str, entries: int = 20_000, **continuous: Any) -> Recorder:
    wanted = {"seconds": NEVER, "peak_percent": None, **continuous}
    return memreplay.record(path, continuous=wanted, max_entries=entries).start()


def rotate(recorder: Recorder) -> dict[str, Any]:
    """End a window; return its file and PyTorch's figures."""
    rotation = recorder._session.rotation
    assert rotation is not None
    found = window(rotation.rotate())
    torch.cuda.reset_peak_memory_stats()
    return found


def window(file: str) -> dict[str, Any]:
    statistics = torch.cuda.memory_stats()
    found: dict[str, Any] = {name: statistics[f"{name}_bytes.all.peak"] for name in MEASURES}
    return {**found, "end": statistics["requested_bytes.all.current"], "file": file}


def keep(kept: dict[int, torch.Tensor], size: int) -> None:
    tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
    kept[tensor.data_ptr()] = tensor


def training(path: str) -> Any:
    """Trains, and keeps some memory across many windows."""
    rng = random.Random(1)
    layers = [torch.nn.Linear(700, 700) for _ in range(2)]
    recorder = start(path)
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    kept: dict[int, torch.Tensor] = {}
    windows = []
    before: dict[int, int] = {}
    for i in range(6):
        for _ in range(25):
            x = torch.randn(rng.randint(1, 3000), 700, device="cuda")
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            keep(kept, rng.randint(1, 3_000_000))
            if len(kept) > 30:
                del kept[rng.choice(list(kept))]
        if i == 3:
            torch.cuda.empty_cache()
        windows.append({**rotate(recorder), "kept_before": before})
        before = {address: tensor.numel() for address, tensor in kept.items()}
    recorder.stop()
    return windows


def ring(path: str) -> Any:
    """Has far more events than the ring keeps; the truth is what the last edge's file can know."""
    rng = random.Random(2)
    recorder = start(path)
    rotation = recorder._session.rotation
    assert rotation is not None
    kept: dict[int, torch.Tensor] = {}
    for _ in range(40):
        for _ in range(500):
            keep(kept, rng.randint(1, 100_000))
            if len(kept) > 300:
                del kept[rng.choice(list(kept))]
        rotation.ring.look()
    found = rotate(recorder)
    recorder.stop()
    return {**found, "kept": {address: tensor.numel() for address, tensor in kept.items()}}


def threads(path: str) -> Any:
    """Threads allocate while files are written, and the process forks."""
    recorder = start(path, entries=400_000)
    over = threading.Event()

    def work(seed: int) -> None:
        rng = random.Random(seed)
        kept: dict[int, torch.Tensor] = {}
        while not over.is_set():
            keep(kept, rng.randint(1, 3_000_000))
            if len(kept) > 40:
                del kept[rng.choice(list(kept))]
            time.sleep(0.0002)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for worker in workers:
        worker.start()
    files = []
    for _ in range(4):
        time.sleep(0.3)
        files.append(rotate(recorder)["file"])
        if not (child := os.fork()):
            recorder.stop()  # must not write anything, nor wait for the thread
            os.kill(os.getpid(), signal.SIGKILL)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    over.set()
    for worker in workers:
        worker.join()
    recorder.stop()
    return {"files": files}


def peak(path: str) -> Any:
    """Reaches new maxima, each of which is written, and then runs out of memory."""
    recorder = start(path, peak_percent=2)
    rotation = recorder._session.rotation
    assert rotation is not None
    peaks = []
    now = [rotation.clock()]
    rotation.clock = lambda: now[0]
    for size in (100, 101, 110, 90, 130):
        tensor = torch.empty(size << 20, dtype=torch.uint8, device="cuda")
        recorder.step()
        del tensor
        now[0] += 60
        recorder.step()
        now[0] += 60
        peaks.append(torch.cuda.memory_stats()["requested_bytes.all.peak"])
    with contextlib.suppress(torch.OutOfMemoryError):
        try:
            torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
        finally:
            recorder.stop()
    return {"peaks": peaks, "last": os.path.basename(recorder.path)}


def full_disk(path: str) -> Any:
    """Can't write one of its files, and goes on."""
    recorder = start(path)
    kept: dict[int, torch.Tensor] = {}
    there = []
    for limit in (None, 1000, None):
        keep(kept, 1000)
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit or hard, hard))
        rotate(recorder)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        there.append(sorted(os.listdir(os.path.dirname(path))))
    recorder.stop()
    return there


def killed(path: str) -> Any:
    """Is killed while it writes files, at another moment each time. Returns what was left."""
    there = []
    for i in range(8):
        read, write = os.pipe()
        if not (child := os.fork()):
            recorder = start(path, keep=3)
            kept: dict[int, torch.Tensor] = {}
            while True:
                for _ in range(300):
                    keep(kept, 1000)
                rotate(recorder)
                os.write(write, b".")
        os.read(read, 1)  # the first file is there
        time.sleep(0.01 + 0.013 * i)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)
        there.append(sorted(os.listdir(os.path.dirname(path))))
    return there


PROGRAMS: dict[str, Callable[[str], Any]] = {
    one.__name__: one for one in (training, ring, threads, peak, full_disk, killed)
}

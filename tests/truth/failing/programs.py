"""Programs that run out of memory, each in its own way."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from datetime import timedelta
from typing import Any, NoReturn

import torch

import memreplay

GIB = 1 << 30


def take(size: int) -> Any:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def train(batch: int) -> None:
    """Keep a GiB for each sample."""
    net = torch.nn.Linear(64, 64, device="cuda")
    kept = [take(GIB) for _ in range(batch)]
    net(torch.randn(8, 64, device="cuda")).sum().backward()
    torch.optim.SGD(net.parameters()).step()
    kept.clear()


def fill() -> None:
    train(1000)


def uncaught() -> None:
    memreplay.record("snap.pickle").start()
    fill()


def in_with() -> None:
    with memreplay.record("snap.pickle"):
        fill()


def thread() -> None:
    memreplay.record("snap.pickle").start()
    running = threading.Thread(target=fill)
    running.start()
    running.join()


class Wide(torch.autograd.Function):
    """Allocates in backward, which runs in autograd's own thread."""

    @staticmethod
    def forward(_: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(_: Any, *gradients: Any) -> Any:
        fill()
        return gradients[0]


def backward() -> None:
    memreplay.record("snap.pickle").start()
    x = torch.ones(8, device="cuda", requires_grad=True)
    Wide.apply(x).sum().backward()


def fits(batch: int) -> bool:
    """Train if that's possible, and free everything if it isn't."""
    try:
        train(batch)
    except RuntimeError:
        gc.collect()
        torch.cuda.empty_cache()
        return False
    return True


def retries() -> None:
    """Halve the batch until it fits, as accelerate and Lightning do."""
    with memreplay.record("snap.pickle"):
        print("fits", next(batch for batch in (256, 128, 64, 32, 16, 8) if fits(batch)))


def gives_up() -> None:
    """Raise the last of several errors."""
    with memreplay.record("snap.pickle"):
        assert not any(fits(batch) for batch in (256, 128, 64, 32))
        train(17)


def exits() -> None:
    memreplay.record("snap.pickle").start()
    try:
        fill()
    except RuntimeError:
        sys.exit(7)


def exits_at_once() -> None:
    memreplay.record("snap.pickle").start()
    try:
        fill()
    except RuntimeError:
        os._exit(8)


def full_disk() -> None:
    """Write at most 100 KB per file."""
    import resource

    memreplay.record("snap.pickle").start()
    for _ in range(2000):
        take(512)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        fill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, resource.RLIM_INFINITY))


def no_folder() -> None:
    os.mkdir("run")
    memreplay.record("run/snap.pickle").start()
    os.rmdir("run")
    fill()


def one_rank() -> None:
    """Rank 1 fails, while rank 0 waits for it in C++ code."""
    memreplay.record("snap.pickle").start()
    torch.distributed.init_process_group("gloo", timeout=timedelta(minutes=5))
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8, device="cuda"))
    net(torch.ones(8, 8, device="cuda")).sum().backward()
    if torch.distributed.get_rank() == 1:
        fill()
    waits_in_c()


def waits_in_c() -> NoReturn:
    """Wait forever, like a collective whose other ranks are gone."""
    libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    while True:
        libc.pthread_mutex_lock(mutex)


def worker(rank: int, port: int) -> None:
    recorder = memreplay.record("snap.pickle").start()
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )
    train(1)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    if rank == 0:
        recorder.stop()
    else:
        fill()


def spawned() -> None:
    """The launcher sets no environment variables, so only the process group has the rank."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(worker, (port,), nprocs=2)


PROGRAMS = {
    program.__name__: program
    for program in (
        *(uncaught, in_with, thread, backward, retries, gives_up, exits, exits_at_once),
        *(full_disk, no_folder, one_rank, spawned),
    )
}

"""Programs that read what a dry run may not know. It must know, or say that it doesn't."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def negative_view(device: str) -> Any:
    numbers = torch.tensor([1 + 2j, 3 - 1j]).to(device)
    return numbers.conj().imag.tolist()


def counted_in_mode(device: str) -> Any:
    calls = torch.zeros((), dtype=torch.long, device=device)

    class Counts(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            calls.add_(1)
            return func(*args, **(kwargs or {}))

    with Counts():
        torch.arange(4, device=device).add_(1)
    return calls.item()


def functionalized(device: str) -> Any:
    def plus_one(it: torch.Tensor) -> torch.Tensor:
        made = it.clone()
        made.add_(1)
        return made

    return torch.func.functionalize(plus_one)(torch.arange(4, device=device)).tolist()


def mapped_in_place(device: str) -> Any:
    rows = torch.arange(12, device=device).view(3, 4).clone()
    torch.vmap(lambda row: row.add_(1))(rows)
    return rows.tolist()


def statistics_of_ranks(device: str) -> Any:
    if device == "cpu":  # its only kernel is for cards
        return [0.1, 0.1]
    running, rows = torch.zeros(2, device=device), torch.ones(1, 2, device=device)
    spread, counts = torch.ones(2, device=device), torch.full((1,), 4.0, device=device)
    torch.batch_norm_gather_stats_with_counts(rows, rows, rows, running, spread, 0.1, 1e-5, counts)
    return running.tolist()


def in_raw_thread(device: str) -> Any:
    import _thread

    numbers, done = torch.arange(4).to(device), _thread.allocate_lock()

    def work() -> None:
        numbers.add_(5)
        done.release()

    done.acquire()
    _thread.start_new_thread(work, ())
    done.acquire()
    return numbers.tolist()


PROGRAMS: dict[str, Callable[[str], Any]] = {
    name: made
    for name, made in list(globals().items())
    if callable(made) and getattr(made, "__module__", "") == __name__
}

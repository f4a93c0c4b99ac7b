"""The same values on another card, in other processes and threads, and from pinned memory."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import multiprocessing
from torch.utils.data import DataLoader, TensorDataset

CHILDREN = 2


def work(device: str) -> Any:
    values = torch.tensor([3, 0, 5, 0, 1]).to(device)
    mask = values > 0
    return values[mask].tolist(), mask.sum().item(), torch.arange(6, device=device).sum().item()


def child(device: str, results: Any) -> None:
    results.put(work(device))


def started(how: str, device: str) -> Any:
    context = multiprocessing.get_context(how)
    results = context.Queue()
    children = [context.Process(target=child, args=(device, results)) for _ in range(CHILDREN)]
    for one in children:
        one.start()
    found = [results.get(timeout=120) for _ in children]
    for one in children:
        one.join()
    return found


def forked(device: str) -> Any:
    """The first program, because a fork can't use a card that its parent has used."""
    return started("fork", device)


def spawned(device: str) -> Any:
    return started("spawn", device)


def second_card(device: str) -> Any:
    if device == "cpu":
        return work(device), 10
    moved = torch.arange(5, device="cuda:0").to("cuda:1")
    return work("cuda:1"), moved.sum().item()


def pool_of_threads(device: str) -> Any:
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(lambda _: work(device), range(4)))


def pinned_by_workers(device: str) -> Any:
    numbers = TensorDataset(torch.arange(32).view(16, 2))
    loader = DataLoader(numbers, 4, num_workers=2, pin_memory=device == "cuda")
    return [batch.to(device, non_blocking=True).sum().item() for (batch,) in loader]


def backward(device: str) -> Any:
    seen: list[Any] = []

    class Masked(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, values: torch.Tensor) -> torch.Tensor:
            context.mask = torch.tensor([1, 0, 1]).to(device) > 0
            return values.clone()

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
            seen.append((context.mask.sum().item(), gradient[context.mask].shape))
            return gradient

    values = torch.ones(3, device=device, requires_grad=True)
    Masked.apply(values).sum().backward()
    return seen


PROGRAMS: dict[str, Callable[[str], Any]] = {
    one.__name__: one
    for one in (forked, spawned, second_card, pool_of_threads, pinned_by_workers, backward)
}
